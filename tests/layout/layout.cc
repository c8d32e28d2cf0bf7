// Layouts as maps: which maps are layouts, what they say of extents, and where elements lie, held against the map
// itself evaluated element by element.
#include "compiler/layout/layout.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <set>

using namespace heddle;

namespace {

class Layouts : public testing::Test {
protected:
  mlir::AffineMap map(const std::string &text) {
    return llvm::cast<mlir::AffineMapAttr>(mlir::parseAttribute("affine_map<" + text + ">", &context)).getValue();
  }

  bool is_layout(const std::string &text, int64_t rank) {
    mlir::ScopedDiagnosticHandler silent(&context, [](mlir::Diagnostic &) { return mlir::success(); });
    auto emit = [&] { return mlir::emitError(mlir::UnknownLoc::get(&context)); };
    return mlir::succeeded(layout::verify(map(text), rank, emit));
  }

  mlir::MLIRContext context;
};

const char *const matrices[] = {
    "(n, k) -> (n, k)",
    "(n, k) -> (k, n)",
    "(n, k) -> (n floordiv 4, k, n mod 4)",
    "(n, k) -> (n floordiv 4, k floordiv 2, n mod 4, k mod 2)",
    "(n, k) -> (n floordiv 4, k floordiv 8, (k mod 8) floordiv 2, n mod 4, k mod 2)",
    "(n, k) -> (k floordiv 8, n, (k floordiv 2) mod 4, k mod 2)",
};

TEST_F(Layouts, elements_lie_where_the_map_says_and_nowhere_twice) {
  for (const char *text : matrices)
    for (std::vector<int64_t> shape : {std::vector<int64_t>{1, 1}, {4, 8}, {7, 3}, {13, 21}}) {
      SCOPED_TRACE(text);
      mlir::AffineMap layout = map(text);
      layout::Addresses addresses(layout, shape);
      llvm::SmallVector<int64_t> extents = layout::memory_shape(layout, shape);
      std::vector<int64_t> found = addresses.along(0, 2);
      std::set<int64_t> distinct(found.begin(), found.end());
      EXPECT_EQ(distinct.size(), size_t(shape[0] * shape[1]));
      EXPECT_LT(*distinct.rbegin(), addresses.elements());
      for (int64_t n = 0; n < shape[0]; ++n)
        for (int64_t k = 0; k < shape[1]; ++k) {
          int64_t address = 0;
          for (auto [index, extent] : llvm::zip_equal(layout.compose({n, k}), extents)) {
            EXPECT_LT(index, extent);
            address = address * extent + index;
          }
          EXPECT_EQ(found[n * shape[1] + k], address);
          EXPECT_EQ(addresses.along(0)[n] + addresses.along(1)[k], address);
        }
    }
}

TEST_F(Layouts, extents_are_padded_to_whole_digits_and_may_be_formulas) {
  mlir::AffineMap pairs = map("(n, k) -> (n floordiv 32, k floordiv 2, n mod 32, k mod 2)");
  EXPECT_EQ(layout::memory_shape(pairs, {33, 5}), (llvm::SmallVector<int64_t>{2, 3, 32, 2}));
  mlir::AffineExpr rows = mlir::getAffineDimExpr(0, &context), terms = mlir::getAffineConstantExpr(8, &context);
  llvm::SmallVector<mlir::AffineExpr> extents = layout::memory_extents(pairs, {rows, terms});
  EXPECT_EQ(extents[0], rows.ceilDiv(32));
  EXPECT_EQ(extents[1], mlir::getAffineConstantExpr(4, &context));
}

TEST_F(Layouts, maps_whose_digits_do_not_make_up_the_index_are_refused) {
  for (const char *text : matrices)
    EXPECT_TRUE(is_layout(text, 2)) << text;
  EXPECT_FALSE(is_layout("(n, k) -> (n)", 2)) << "an axis without digits";
  EXPECT_FALSE(is_layout("(n, k) -> (n, k, k)", 2)) << "an axis twice";
  EXPECT_FALSE(is_layout("(n, k) -> (n mod 4, k)", 2)) << "the upper digit is missing";
  EXPECT_FALSE(is_layout("(n, k) -> (n floordiv 4, n mod 2, k)", 2)) << "a gap between digits";
  EXPECT_FALSE(is_layout("(n, k) -> (n floordiv 2, n mod 4, k)", 2)) << "digits overlap";
  EXPECT_FALSE(is_layout("(n, k) -> (n + k, k)", 2)) << "two axes in one digit";
  EXPECT_FALSE(is_layout("(n, k) -> (n * 2, k)", 2)) << "a multiple";
  EXPECT_FALSE(is_layout("(n, k)[s] -> (n, k)", 2)) << "a symbol";
  EXPECT_FALSE(is_layout("(n, k) -> (n, k)", 3)) << "another rank";
}

TEST_F(Layouts, panels_and_what_vectors_read_of_a_layout) {
  mlir::AffineMap window = layout::panels(&context, 0, 64, {2, 3, 1});
  EXPECT_EQ(window, map("(o, c, u, v) -> (o floordiv 64, u, v, c, o mod 64)"));
  ASSERT_TRUE(layout::panels_of(window));
  EXPECT_EQ(layout::panels_of(window)->axis, 0u);
  EXPECT_EQ(layout::panels_of(window)->width, 64);
  EXPECT_EQ(layout::panels_of(window)->group, 1);
  mlir::AffineMap pairs = layout::panels(&context, 0, 64, {2, 3, 1}, 2);
  EXPECT_EQ(pairs, map("(o, c, u, v) -> (o floordiv 64, u, v, c floordiv 2, o mod 64, c mod 2)"));
  ASSERT_TRUE(layout::panels_of(pairs));
  EXPECT_EQ(layout::panels_of(pairs)->axis, 0u);
  EXPECT_EQ(layout::panels_of(pairs)->width, 64);
  EXPECT_EQ(layout::panels_of(pairs)->grouped_axis, 1u);
  EXPECT_EQ(layout::panels_of(pairs)->group, 2);
  EXPECT_FALSE(layout::panels_of(map("(n, k) -> (k, n)")));
  EXPECT_FALSE(layout::panels_of({}));
  EXPECT_EQ(layout::describe(window), "panels of 64 along axis 0");
  EXPECT_EQ(layout::describe({}), "row-major");
  EXPECT_EQ(layout::describe(map("(n, k) -> (n floordiv 4, k floordiv 2, n mod 4, k mod 2)")),
            "panels of 4 along axis 0, 2 of axis 1 side by side");
  EXPECT_EQ(layout::describe(map("(n, k) -> (k floordiv 2, n floordiv 4, n mod 4, k mod 2)")),
            "(d0, d1) -> (d1 floordiv 2, d0 floordiv 4, d0 mod 4, d1 mod 2)");
}

} // namespace
