"""tools/mutants.py: the changes of a module."""

from tools import mutants

SOURCE = '''"""Docs."""
LIMIT: int = 3


def f(é, b=True, text="x"):
    """Docs."""
    if é < LIMIT and not b:
        print(f"é {é + 1}", "é", é * 2)
        raise ValueError(text)
    é = (é -
         1)
    return "a" + text if b else é
'''


def test_each_change_is_of_one_operator_constant_or_line():
    found = list(mutants.mutants("f.py", SOURCE))
    assert sorted((each.line, each.before, each.after) for each in found) == sorted(
        [
            (2, "3", "4"),
            (5, "True", "False"),
            (7, "é < LIMIT and (not b)", "é < LIMIT or not b"),
            (7, "é < LIMIT", "é <= LIMIT"),
            (7, "not b", "b"),
            (8, "print(f'é {é + 1}', 'é', é * 2)", "pass"),
            (8, "é * 2", "é / 2"),
            (8, "2", "3"),
            (9, "raise ValueError(text)", "pass"),
            (10, "é = é - 1", "pass"),
            (10, "é - 1", "é + 1"),
            (11, "1", "2"),
            (12, "return 'a' + text if b else é", "return None"),
        ]
    )

    # All other code keeps its form.
    sources = {each.before: each.source for each in found}
    assert sources["é - 1"] == SOURCE.replace("(é -\n         1)", "((é + 1))")
    assert sources["not b"] == SOURCE.replace("not b", "(b)")
    assert sources["é = é - 1"] == SOURCE.replace("é = (é -\n         1)", "pass")
