// Times from a clock that is made up: one that is disturbed, and one that stands still now and then.
#include "compiler/tune/turns.h"

#include <gtest/gtest.h>

namespace heddle::test {

using tune::Turns, tune::undisturbed_seconds;

TEST(UndisturbedSeconds, AreTheLowerQuartile) {
  EXPECT_EQ(undisturbed_seconds({}), 0);
  EXPECT_EQ(undisturbed_seconds({3}), 3);
  EXPECT_EQ(undisturbed_seconds({5, 3, 4}), 4);
  EXPECT_EQ(undisturbed_seconds({9, 3, 8, 4, 7, 5, 6}), 5);
}

TEST(UndisturbedSeconds, AClockThatStandsStillDoesNotCount) {
  EXPECT_EQ(undisturbed_seconds({5, 0, 4}), 4);
  EXPECT_EQ(undisturbed_seconds({1, 1e-9, 1, 0, 1, 1e-9, 1, 1, 1}), 1);
  EXPECT_EQ(undisturbed_seconds({0, 0, 0}), 0) << "nothing is known";
}

TEST(Turns, AMomentWithoutTimeMakesNoCandidateFast) {
  Turns turns(2, 1, 1e6);
  for (int turn = 0; turn < 8; ++turn) {
    turns.begin_turn(1e-11);
    turns.add(0, 1.0e-3);
    turns.add(1, turn == 3 ? 2e-7 : 1.1e-3);
    turns.end_turn(1e-11);
  }
  EXPECT_DOUBLE_EQ(turns.seconds(0), 1.0e-3);
  EXPECT_DOUBLE_EQ(turns.seconds(1), 1.1e-3);
}

TEST(Turns, AMomentWithoutTimeMakesNoPeakThatAllTurnsFallShortOf) {
  Turns turns(1, 1, 1e6);
  for (int turn = 0; turn < 8; ++turn) {
    turns.begin_turn(turn == 2 ? 1e-15 : 1e-11);
    turns.add(0, 1e-3);
    turns.end_turn(1e-11);
  }
  EXPECT_DOUBLE_EQ(turns.peak(), 1e11);
  EXPECT_EQ(turns.calm_turns(0), 8u);
}

TEST(Turns, ATurnInWhichTheMachineIsSlowDoesNotCount) {
  Turns turns(2, 1, 1e6);
  for (int turn = 0; turn < 9; ++turn) {
    bool slow = turn < 4;
    turns.begin_turn(1e-11);
    turns.add(0, slow ? 2e-3 : 1e-3);
    if (slow)
      turns.add(1, 3e-3);
    turns.end_turn(slow ? 2e-11 : 1e-11);
  }
  EXPECT_EQ(turns.calm_turns(0), 5u);
  EXPECT_DOUBLE_EQ(turns.seconds(0), 1e-3);
  EXPECT_EQ(turns.calm_turns(1), 0u);
  EXPECT_DOUBLE_EQ(turns.seconds(1), 3e-3) << "better than nothing";
}

// However often: three samples of four claim a million times the peak.
TEST(Turns, WhatNoMachineDoesIsNoTime) {
  Turns turns(2, 2, 1e8);
  for (int turn = 0; turn < 8; ++turn) {
    turns.begin_turn(1e-11);
    turns.add(0, turn % 4 ? 1e-9 : 5e-4);
    turns.add(1, 1e-9);
    turns.end_turn(1e-11);
  }
  EXPECT_DOUBLE_EQ(turns.seconds(0), 5e-4);
  EXPECT_EQ(turns.seconds(1), 0) << "not measured";
}

} // namespace heddle::test
