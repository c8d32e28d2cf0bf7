#!/usr/bin/env python3
"""What the tests of models compare results with: it must notice each way in which two results differ, NaN above all, which is
neither larger nor smaller than any tolerance."""

import unittest

import numpy as np
from heddle_command import difference

ONES = {"y": np.ones((2, 3), np.float32)}


class Difference(unittest.TestCase):
    def test_is_a_share_of_the_largest_value(self):
        got = {"y": np.array([[4.0, 3.0], [0.0, -1.0]], np.float32)}
        want = {"y": np.array([[4.0, 2.0], [0.0, -1.0]], np.float32)}
        self.assertEqual(difference(got, want), 0.25)
        self.assertEqual(difference(want, want), 0)

    def test_what_is_no_number_compares_with_nothing_on_either_side(self):
        for value in (np.nan, np.inf, -np.inf):
            wrong = {"y": ONES["y"].copy()}
            wrong["y"][1, 2] = value
            self.assertEqual(difference(wrong, ONES), "y holds values that are no numbers")
            self.assertEqual(difference(ONES, wrong), "y of the reference holds values that are no numbers")

    def test_a_reference_of_zeros_allows_nothing_else(self):
        zeros = {"y": ONES["y"] * 0}
        self.assertEqual(difference(zeros, zeros), 0)
        self.assertEqual(difference(ONES, zeros), float("inf"))

    def test_other_names_types_and_shapes_are_told(self):
        self.assertEqual(difference({"x": ONES["y"]}, ONES), "results are ['x'], not ['y']")
        self.assertEqual(difference({"y": ONES["y"].astype(np.float64)}, ONES), "y is float64[2, 3], not float32[2, 3]")
        self.assertEqual(difference({"y": ONES["y"].T}, ONES), "y is float32[3, 2], not float32[2, 3]")

    def test_whole_numbers_and_conditions_have_distances_too(self):
        small, large = {"n": np.array([0, 4], np.uint8)}, {"n": np.array([1, 4], np.uint8)}
        self.assertEqual(difference(small, large), 0.25)
        self.assertEqual(difference({"m": np.array([True])}, {"m": np.array([False])}), float("inf"))

    def test_nothing_is_equal_to_nothing(self):
        self.assertEqual(difference({"y": np.ones((0, 3))}, {"y": np.ones((0, 3))}), 0)


if __name__ == "__main__":
    unittest.main()
