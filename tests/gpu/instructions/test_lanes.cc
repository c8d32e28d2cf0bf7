// Runs all cases of lane-wise instructions on the emulated GPU, demands that each instruction has a test.
#include "tests/gpu/device.h"
#include "tests/gpu/instructions/cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace gpu_test {
namespace {

std::vector<std::string> all_rows() {
  std::vector<std::string> rows;
  std::string text = heddle_emulator_instructions(), row;
  for (char c : text)
    if (c == '\n')
      rows.push_back(std::move(row)), row.clear();
    else
      row += c;
  return rows;
}

std::vector<Case> all_cases() {
  std::vector<std::string> rows = all_rows();
  std::vector<Case> cases;
  for (auto add :
       {add_integer_cases, add_bit_cases, add_float_cases, add_half_cases, add_choice_cases, add_conversion_cases})
    add(rows, cases);
  return cases;
}

/// Types of registers by size; 8-bit values travel in registers of 32.
std::string register_type(const std::string &type) {
  unsigned bits = bits_of(type);
  return type == "pred" ? "pred" : bits == 8 ? "b32" : "b" + std::to_string(bits);
}

std::string replaced(std::string text, const Case &c) {
  for (auto [name, reg] : {std::pair{'D', "%d"}, {'A', "%a"}, {'B', "%b"}, {'C', "%c"}})
    for (size_t at = 0; (at = text.find(name, at)) != text.npos; at++) {
      bool alone = (at == 0 || !isalnum(text[at - 1])) && (at + 1 == text.size() || !isalnum(text[at + 1]));
      if (alone)
        text.replace(at, 1, reg);
    }
  return text;
}

std::string kernel_text(const Case &c, const std::string &name) {
  std::string t = ".visible .entry " + name +
                  "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{\n"
                  ".reg .b64 %p<9>; .reg .b32 %t<9>; .reg .b16 %h<9>;\n"
                  "mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mov.u32 %t2, %ntid.x; mad.lo.u32 %t0, %t1, %t2, %t0;\n"
                  "mul.wide.u32 %p0, %t0, 8;\n";
  auto load = [&](const std::string &type, const std::string &letter) {
    if (type.empty())
      return;
    std::string r = register_type(type);
    t += ".reg ." + r + " %" + letter + "; ld.param.u64 %p1, [p" + letter +
         "]; add.u64 %p1, %p1, %p0; ld.global.u64 %p2, [%p1]; ";
    t += r == "pred"  ? "setp.ne.u64 %" + letter + ", %p2, 0;\n"
         : r == "b64" ? "mov.b64 %" + letter + ", %p2;\n"
                      : "cvt.u" + r.substr(1) + ".u64 %" + letter + ", %p2;\n";
  };
  load(c.a, "a"), load(c.b, "b"), load(c.c, "c");
  std::string r = register_type(c.d);
  t += ".reg ." + r + " %d;\n" + replaced(c.text, c) + "\n";
  t += r == "pred"  ? "selp.b64 %p3, 1, 0, %d;\n"
       : r == "b64" ? "mov.b64 %p3, %d;\n"
                    : "cvt.u64.u" + r.substr(1) + " %p3, %d;\n";
  return t + "ld.param.u64 %p4, [pd]; add.u64 %p4, %p4, %p0; st.global.u64 [%p4], %p3; ret;\n}\n";
}

/// Edges of the type and random numbers, those also with exponents near one another.
std::vector<uint64_t> values_of(const std::string &type, size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> edges = {0, 1, 2, 3, ~0ull, ~0ull - 1, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256};
  unsigned bits = bits_of(type);
  for (unsigned i : {8u, 16u, 32u, 64u})
    if (i <= bits)
      edges.insert(edges.end(), {1ull << (i - 1), (1ull << (i - 1)) - 1, (1ull << (i - 1)) + 1});
  auto floats = [&](std::initializer_list<double> list) {
    for (double x : list)
      for (double s : {x, -x})
        edges.push_back(type == "f64"                    ? std::bit_cast<uint64_t>(s)
                        : type == "f32"                  ? std::bit_cast<uint32_t>(float(s))
                        : type.find("16x2") != type.npos ? nearest(type.substr(0, type.size() - 2), s) * 0x10001
                                                         : nearest(type, s));
  };
  if (type == "f32" || type == "f64" || type == "f16" || type == "bf16" || type == "f16x2" || type == "bf16x2")
    floats({0.0,      1.0, 0.5,      1.5,      2.5,      3.0,     1e-3,    100.0, 65504.0, 1e30,   1e-30,
            INFINITY, NAN, 0x1p-126, 0x1p-127, 0x1p-149, 0x1p-24, 0x1p-14, 0.1,   448.0,   57344.0});
  if (type == "pred")
    edges = {0, 1};
  std::vector<uint64_t> values(count);
  for (uint64_t &v : values) {
    switch (random() % 4) {
    case 0:
      v = edges[random() % edges.size()];
      break;
    case 1:
      v = random();
      break;
    case 2:
      v = random() >> (random() % 64);
      break;
    default: // numbers of ordinary size
      v = type == "f64"                     ? std::bit_cast<uint64_t>(double(int64_t(random())) * 0x1p-61)
          : type == "f32"                   ? std::bit_cast<uint32_t>(float(int64_t(random())) * 0x1p-61f)
          : type == "f16" || type == "bf16" ? nearest(type, (long double)(int64_t(random()) % 4096) / 512)
                                            : random() % 100;
    }
    if (type == "pred")
      v &= 1;
    else if (bits < 64)
      v &= (1ull << bits) - 1;
  }
  return values;
}

bool is_nan(const std::string &type, uint64_t bits) {
  if (type == "f64" || type == "f32" || type == "f16" || type == "bf16")
    return std::isnan(double(real(type, bits)));
  return false;
}

bool agrees(const Case &c, uint64_t expected, uint64_t got) {
  unsigned bits = bits_of(c.d);
  got = bits == 64 ? got : got & ((1ull << bits) - 1);
  if (expected == got || (is_nan(c.d, expected) && is_nan(c.d, got)))
    return true;
  if (!c.tolerance)
    return false;
  double x = double(real(c.d, expected)), y = double(real(c.d, got));
  return std::fabs(x - y) <= c.tolerance * std::max(std::fabs(x), 0.1);
}

struct Instructions : Gpu {
  void SetUp() override {
    Gpu::SetUp();
    heddle_emulator_set("sm", 90);
  }
};

std::string module_of(const std::vector<Case> &cases) {
  std::string text = module_text("", "sm_90");
  for (size_t i = 0; i < cases.size(); i++)
    text += kernel_text(cases[i], "k" + std::to_string(i));
  return text;
}

TEST_F(Instructions, give_what_a_scalar_reference_gives) {
  std::vector<Case> cases = all_cases();
  ASSERT_GT(cases.size(), 700u);
  Program program(module_of(cases));
  constexpr size_t count = 512;
  int reported = 0;
  std::map<std::string, std::vector<uint64_t>> values;
  for (size_t i = 0; i < cases.size(); i++) {
    const Case &c = cases[i];
    std::vector<uint64_t> inputs[3];
    const std::string *types[] = {&c.a, &c.b, &c.c};
    for (unsigned s = 0; s < 3; s++) {
      auto &v = values[*types[s] + std::to_string(s)];
      if (v.empty())
        v = types[s]->empty() ? std::vector<uint64_t>(count) : values_of(*types[s], count, s);
      inputs[s] = v;
    }
    Buffer<uint64_t> a(inputs[0]), b(inputs[1]), cc(inputs[2]), d(count);
    CUfunction f = program.kernel(("k" + std::to_string(i)).c_str());
    CUresult r = launch_blocks(f, {count / 64, 1, 1}, {64, 1, 1}, 0, a.address, b.address, cc.address, d.address);
    if (r) {
      ADD_FAILURE() << c.row << ": " << heddle_emulator_message();
      heddle_emulator_reset();
      continue;
    }
    std::vector<uint64_t> results = d.read();
    for (size_t j = 0; j < count; j++) {
      uint64_t expected = c.reference(inputs[0][j], inputs[1][j], inputs[2][j]);
      if (agrees(c, expected, results[j]))
        continue;
      if (reported++ < 30)
        ADD_FAILURE() << c.row << ": " << c.text << std::hex << " of " << inputs[0][j] << ", " << inputs[1][j] << ", "
                      << inputs[2][j] << " gives " << results[j] << ", not " << expected;
      break;
    }
  }
  EXPECT_EQ(reported, 0);
}

TEST_F(Instructions, have_each_a_test) {
  std::set<std::string> tested;
  for (const Case &c : all_cases())
    tested.insert(c.row);
  std::string missing;
  for (const std::string &row : all_rows()) {
    bool elsewhere = false;
    for (auto &[pattern, file] : tested_elsewhere())
      elsewhere |=
          row == pattern || (pattern.back() == '*' && row.rfind(pattern.substr(0, pattern.size() - 1), 0) == 0);
    if (!elsewhere && !tested.count(row))
      missing += row + "\n";
  }
  EXPECT_EQ(missing, "");
}

} // namespace

const std::vector<std::pair<std::string, std::string>> &tested_elsewhere() {
  static const std::vector<std::pair<std::string, std::string>> list = {
      {"addc*", "carries.cc"},
      {"add.cc.*", "carries.cc"},
      {"subc*", "carries.cc"},
      {"sub.cc.*", "carries.cc"},
      {"madc*", "carries.cc"},
      {"mad.lo.cc.*", "carries.cc"},
      {"mad.hi.cc.*", "carries.cc"},
      {"ld.*", "memory.cc"},
      {"st.*", "memory.cc"},
      {"cvta.*", "memory.cc"},
      {"isspacep.*", "memory.cc"},
      {"atom.*", "memory.cc"},
      {"cp.async*", "async_copies.cc"},
      {"mma.*", "matrices.cc"},
      {"wmma.*", "matrices.cc"},
      {"ldmatrix.*", "matrices.cc"},
      {"stmatrix.*", "matrices.cc"},
      {"shfl.*", "warps.cc"},
      {"vote.*", "warps.cc"},
      {"redux.*", "warps.cc"},
      {"match.*", "warps.cc"},
      {"activemask.b32", "warps.cc"},
      {"elect.sync", "warps.cc"},
      {"bar.*", "warps.cc"},
      {"bra", "control.cc"},
      {"brx.idx", "control.cc"},
      {"ret", "control.cc"},
      {"exit", "control.cc"},
      {"trap", "control.cc"},
      {"brkpt", "control.cc"},
      {"membar", "control.cc"},
      {"fence", "control.cc"},
      {"nanosleep", "control.cc"},
      {"prefetch", "control.cc"},
      {"prefetchu", "control.cc"},
      {"applypriority", "control.cc"},
      {"discard", "control.cc"},
      {"pmevent", "control.cc"},
      {"griddepcontrol", "control.cc"},
      {"setmaxnreg", "control.cc"},
      {"bar.warp.sync", "warps.cc"},
  };
  return list;
}

} // namespace gpu_test
