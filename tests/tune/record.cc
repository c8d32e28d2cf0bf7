#include "compiler/tune/record.h"
#include "made_up.h"

#include <gtest/gtest.h>

namespace heddle::test {

using tune::Place;
using tune::Record;

static std::string text_of_error(std::string_view text) {
  auto records = tune::read_records(text, "r.txt");
  return records ? "" : records.error().message;
}

TEST(Record, TextIsSortedByMachineKernelSizesAsNumbersAndRow) {
  std::vector<Record> records = {record("tiles/1 rows=6 fma", 951.3e-6, 128),
                                 record("tiles/1 rows=4 fma", 0.95e-6, 128), record("tiles/1 rows=6 fma", 0.0123, 8),
                                 record("tiles/1 rows=6 fma", 1e-5, 8, {"A CPU", "x86-64-v4", 2})};
  records[1].fault = "the result is wrong";
  EXPECT_EQ(tune::to_text(records),
            "heddle tuning records, format 1\n"
            "\n"
            "[A CPU | x86-64-v4 | 2 threads]\n"
            "0123456789abcdef contraction | 8 | 2: d0 floordiv 16, d1, d0 mod 16 | tiles/1 rows=6 fma | 10.00 us\n"
            "\n"
            "[Some CPU, family 6 model 85 | x86-64-v3 | 1 thread]\n"
            "0123456789abcdef contraction | 8 | 2: d0 floordiv 16, d1, d0 mod 16 | tiles/1 rows=6 fma | 12300 us\n"
            "0123456789abcdef contraction | 128 | 2: d0 floordiv 16, d1, d0 mod 16 | tiles/1 rows=4 fma | ! the result "
            "is wrong\n"
            "0123456789abcdef contraction | 128 | 2: d0 floordiv 16, d1, d0 mod 16 | tiles/1 rows=6 fma | 951.3 us\n");
}

TEST(Record, TextIsReadBackAsItWasWritten) {
  std::vector<Record> records = {record("rows/3 grain=64", 5e-6, 1), record("tiles/1 rows=6 fma", 951.3e-6, 8),
                                 record("tiles/1 rows=4 fma", 0, 128)};
  records[0].subject.sizes = {};
  records[0].subject.layouts = "";
  records[2].fault = "it crashed (SIGSEGV)";
  std::string text = tune::to_text(records);
  auto again = tune::read_records(text, "r.txt");
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->size(), 3u);
  EXPECT_EQ(tune::to_text(*again), text);
  EXPECT_EQ((*again)[2].fault, "it crashed (SIGSEGV)");
  EXPECT_NEAR((*again)[1].seconds, 951.3e-6, 1e-9);
}

TEST(Record, WrongTextHasOneMessageWithItsLine) {
  EXPECT_EQ(text_of_error(""), "r.txt:1: error: these are no tuning records; `heddle tune --export FILE` writes them");
  EXPECT_EQ(text_of_error("heddle tuning records, format 7\n"),
            "r.txt:1: error: tuning records of format 7; this version of Heddle reads format 1");
  std::string title = "heddle tuning records, format 1\n";
  EXPECT_EQ(text_of_error(title + "a b | 1 | | rows/1 | 1 us\n"),
            "r.txt:2: error: no machine was named before this record");
  EXPECT_EQ(text_of_error(title + "\n[A CPU | x86-64-v3]\n"),
            "r.txt:3: error: a machine is written [CPU | target | N threads]");
  for (const char *line :
       {"a b | 1 | | rows/1 | 1 ms", "a b | x | | rows/1 | 1 us", "a b | 1 | | rows/1 | -1 us",
        "a b | 1 | rows/1 | 1 us", "a b | 1 | | rows/1 | nan us", "b | 1 | | rows/1 | 1 us", "a b | 1 | | | 1 us"})
    EXPECT_EQ(text_of_error(title + "[A CPU | x86-64-v3 | 1 thread]\n" + line),
              "r.txt:3: error: a record is written KERNEL KIND | sizes | layouts | row | N us")
        << line;
}

TEST(Record, LinesMayEndAsOnWindows) {
  std::string text = tune::to_text({record("tiles/1 rows=6 fma", 951.3e-6, 8)}), theirs;
  for (char letter : text)
    theirs += letter == '\n' ? "\r\n" : std::string(1, letter);
  auto records = tune::read_records(theirs, "r.txt");
  ASSERT_TRUE(records) << records.error().message;
  EXPECT_EQ(tune::to_text(*records), text);
}

TEST(Record, TwoOfTheSameAreRefusedWithBothLines) {
  std::string text = "heddle tuning records, format 1\n\n[A CPU | x86-64-v3 | 1 thread]\na b | 1 | | rows/1 | 1 us\n"
                     "[A CPU | x86-64-v3 | 2 threads]\na b | 1 | | rows/1 | 2 us\n";
  EXPECT_EQ(text_of_error(text), "");
  EXPECT_EQ(text_of_error(text + "[A CPU | x86-64-v3 | 1 thread]\na b | 1 |  | rows/1 | 3 us\n"),
            "r.txt:8: error: line 4 has another record of the same; remove one of them");
}

TEST(Record, AFaultIsOneLineWithoutBars) {
  EXPECT_EQ(tune::fault_text("it does not load: a | b\nc"), "it does not load: a / b c");
}

} // namespace heddle::test
