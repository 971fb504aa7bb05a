"""Makes the data set of the quickstart, the similarity of handwritten digits.

usage: make_digits.py DIRECTORY      (needs scikit-learn and NumPy)

Uses the 1797 images of 8 x 8 pixels of sklearn.datasets.load_digits. The first
12 of each digit are the 120 queries, in the order of the data set. Writes

  digits_similarity.npy  f32 [120, 1797], the cosine similarity of each query
                         to each image; -1 for the query's own image, which
                         would otherwise be its nearest neighbor
"""

import pathlib
import sys

import numpy as np
from sklearn.datasets import load_digits

QUERIES_OF_EACH = 12


def main():
    directory = pathlib.Path(sys.argv[1])
    digits = load_digits()
    images = digits.data.astype(np.float64)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    labels = digits.target.astype(np.uint8)
    queries = np.concatenate(
        [np.flatnonzero(labels == digit)[:QUERIES_OF_EACH]
         for digit in range(10)])
    similarity = images[queries] @ images.T
    similarity[np.arange(len(queries)), queries] = -1
    np.save(directory / "digits_similarity.npy", similarity.astype(np.float32))

    nearest = labels[np.argsort(-similarity, axis=1)[:, :5]]
    share = (nearest == labels[queries][:, None]).mean()
    print(f"{share:.1%} of the 5 nearest neighbors show the query's digit")


if __name__ == "__main__":
    main()
