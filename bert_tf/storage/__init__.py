"""Files and folders: how they are found, read, written, replaced, locked and described.

Read in this order:

1. `paths` checks the paths that a program is given before it starts; `files` finds
   files and reads lines.
2. `atomic_files` writes a file or folder completely or not at all. `overwrite_rule` is
   the rule for outputs that exist already; `locks` and `workspace` keep two programs
   from writing the same output.
3. `json_files`, `tfrecords`, `safetensors_format` and `wire_format` are the formats.
4. `integrity` has the checksums that show whether files have changed. `weights` writes
   and reads a folder with the weights of a model; `checkpoint_formats` lists this and
   all other formats of checkpoints; `manifest` describes a set of record files.
"""
