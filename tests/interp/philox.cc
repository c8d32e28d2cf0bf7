// Philox 4x32-10 against the known answers of its authors' library (Random123, kat_vectors).
#include "dsl/check/philox.h"
#include "tests/interp/programs.h"

namespace heddle {
namespace {

struct Known {
  uint32_t key[2], counter[4];
  std::array<uint32_t, 4> words;
};
const Known known[] = {
    {{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{~0u, ~0u}, {~0u, ~0u, ~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0xa4093822, 0x299f31d0},
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, GivesTheKnownAnswers) {
  for (const Known &one : known)
    EXPECT_EQ(philox(one.key, one.counter), one.words);
}

TEST(Philox, GivesThemInAStageToo) {
  for (const Known &one : known)
    for (int word = 0; word < 4; ++word) {
      Builder b;
      Expr e = Builder::node(Expr::philox, Type::i32);
      e.whole = word;
      for (uint32_t part : one.key)
        e.args.push_back(b.whole(int32_t(part)));
      for (uint32_t part : one.counter)
        e.args.push_back(b.whole(int32_t(part)));
      b.output(b.stage("y", Type::i32, {}, b.make(std::move(e))));
      EXPECT_EQ(b.run().data[0], double(int32_t(one.words[word])));
    }
}

} // namespace
} // namespace heddle
