// Products whose weight is chosen by data, such as those of a mixture of experts, with rows sorted by the number that
// chooses: what one number has in common is a matrix product then, where it would be a product per row.
//
// clang-format off
//   y[b, s, k, f] = sum[d](x[b, s, d] * w[e[b, s, k], f, d])
//     →
//   %rows, %of_tiles, %places = heddle.group %e                    tiles u of r < H rows of one number
//   g[u, r, d] = x[row %rows[u, r], d]
//   p[u, r, f] = sum[d](g[u, r, d] * (%of_tiles[u] < 0 ? 0 : w[%of_tiles[u], f, d]))
//   y[b, s, k, f] = p[%places[b, s, k], f]
// clang-format on
//
// Sorted are products of a weight that rows choose by one number, and what is computed element by element between two
// of the same numbers: so the gate of an expert's layer reads and writes sorted rows, which go back once, behind the
// layer. Every op keeps its order of summation, whatever tile a row is in. Rows of a tile are so many as a product's
// tile of registers has.
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/cost.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/keyed_products.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::passes {

using namespace mlir;
using linalg::GenericOp;

namespace {

/// The rows of an op, sorted.
struct Member {
  SmallVector<unsigned> rows; // its loops, in the order of the numbers' axes
  std::optional<Keyed> product;
  Value sorted; // what it has computed: tiles, places of a tile, the other axes of its result
};

/// What is sorted by the same numbers.
struct Group {
  Value numbers;
  int64_t below;
  llvm::MapVector<Operation *, Member> members; // in the order of the block
  ir::GroupOp made;
  SmallVector<OpFoldResult> extents; // of the numbers
  llvm::MapVector<std::pair<Value, ArrayAttr>, Value> gathered;
};

class Grouping {
public:
  Grouping(Block &block, Operation *entry, int64_t height)
      : block_(block), entry_(entry), height_(height), b_(entry->getContext()) {}

  void run() {
    for (auto op : llvm::make_early_inc_range(block_.getOps<GenericOp>()))
      if (auto found = keyed(op))
        add(*found);
    for (Group &group : groups_) {
      add_between(group);
      sort(group);
    }
  }

private:
  // ---- Which ops

  void add(Keyed found) {
    if (!found.summed.empty())
      found = *keyed(without_sum(b_, entry_, found));
    Value numbers = known(numbers_of(b_, entry_, found));
    if (!numbers)
      return;
    auto group = llvm::find_if(
        groups_, [&](const Group &other) { return other.numbers == numbers && other.below == found.below; });
    if (group == groups_.end())
      group = groups_.insert(groups_.end(), Group{numbers, found.below, {}, {}, {}, {}});
    group->members[found.op] = {found.rows, found, {}};
  }

  /// Numbers that are computed alike are the same ones.
  Value known(Value numbers) {
    auto made = numbers ? numbers.getDefiningOp<GenericOp>() : GenericOp();
    if (!made || llvm::is_contained(made_numbers_, made))
      return numbers;
    for (GenericOp other : made_numbers_)
      if (other.getDpsInputs() == made.getDpsInputs() && other.getType(0) == made.getType(0) &&
          other.getIndexingMaps() == made.getIndexingMaps() &&
          OperationEquivalence::isRegionEquivalentTo(&other.getRegion(), &made.getRegion(),
                                                     OperationEquivalence::IgnoreLocations)) {
        if (made->use_empty())
          made.erase();
        return other.getResult(0);
      }
    made_numbers_.push_back(made);
    return numbers;
  }

  /// Element-wise ops all of whose readers are members that read along the rows, and which read a member themselves.
  void add_between(Group &group) {
    llvm::MapVector<Operation *, Member> all = group.members;
    for (Operation &op : llvm::reverse(block_))
      if (auto generic = dyn_cast<GenericOp>(op); generic && !all.contains(&op) && !is_sorted_elsewhere(&op))
        if (auto rows = rows_by_readers(generic, all))
          all[&op] = {*rows, std::nullopt, {}};
    llvm::MapVector<Operation *, Member> kept;
    for (Operation &op : block_)
      if (auto found = all.find(&op); found != all.end()) {
        auto generic = cast<GenericOp>(op);
        bool reads = llvm::any_of(generic.getDpsInputOperands(), [&](OpOperand *operand) {
          auto producer = kept.find(operand->get().getDefiningOp());
          return producer != kept.end() && is_along(generic, *operand, found->second, producer->second);
        });
        if (found->second.product || reads)
          kept.insert(*found);
      }
    group.members = std::move(kept);
  }

  bool is_sorted_elsewhere(Operation *op) {
    return llvm::any_of(groups_, [&](const Group &group) { return group.members.contains(op); });
  }

  /// The axis of a member's result along which its rows number `i` lie.
  static unsigned axis_of_row(GenericOp op, const Member &member, size_t i) {
    AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    return unsigned(llvm::find(map.getResults(), getAffineDimExpr(member.rows[i], op.getContext())) -
                    map.getResults().begin());
  }

  /// Whether what a reader takes of a producer's result at its own row is of that row.
  static bool is_along(GenericOp reader, OpOperand &operand, const Member &reads, const Member &makes) {
    auto producer = cast<GenericOp>(operand.get().getDefiningOp());
    AffineMap map = reader.getMatchingIndexingMap(&operand);
    for (size_t i = 0; i < makes.rows.size(); ++i)
      if (map.getResult(axis_of_row(producer, makes, i)) != getAffineDimExpr(reads.rows[i], reader.getContext()))
        return false;
    return true;
  }

  /// The loops of an element-wise op that are rows to all of its readers, where these are members.
  std::optional<SmallVector<unsigned>> rows_by_readers(GenericOp op,
                                                       const llvm::MapVector<Operation *, Member> &members) {
    if (op.getNumReductionLoops() || !has_plain_maps(op) || op->use_empty() ||
        op.getDpsInits()[0].getDefiningOp<linalg::FillOp>() || op.payloadUsesValueFromOperand(op.getDpsInitOperand(0)))
      return std::nullopt;
    AffineMap own = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    std::optional<SmallVector<unsigned>> rows;
    for (OpOperand &use : op->getUses()) {
      auto reader = members.find(use.getOwner());
      if (reader == members.end() || !cast<GenericOp>(use.getOwner()).isDpsInput(&use))
        return std::nullopt;
      AffineMap map = cast<GenericOp>(use.getOwner()).getMatchingIndexingMap(&use);
      SmallVector<unsigned> here;
      for (unsigned loop : reader->second.rows) {
        auto axis = llvm::find(map.getResults(), getAffineDimExpr(loop, op.getContext()));
        if (axis == map.getResults().end())
          return std::nullopt;
        here.push_back(cast<AffineDimExpr>(own.getResult(unsigned(axis - map.getResults().begin()))).getPosition());
      }
      if (rows && *rows != here)
        return std::nullopt;
      rows = here;
    }
    return rows;
  }

  // ---- What becomes of them

  void sort(Group &group) {
    if (!make_group(group))
      return;
    for (auto &[op, member] : group.members)
      rewrite(cast<GenericOp>(op), member, group);
    for (auto &[op, member] : group.members)
      put_back(cast<GenericOp>(op), member, group);
    for (auto &[op, member] : llvm::reverse(group.members))
      op->erase();
  }

  Value index(Location loc, OpFoldResult extent) {
    if (auto value = dyn_cast<Value>(extent))
      return value;
    return arith::ConstantIndexOp::create(b_, loc, cast<IntegerAttr>(cast<Attribute>(extent)).getInt());
  }

  bool make_group(Group &group) {
    auto extents = ir::extent_formulas(group.numbers);
    if (failed(extents))
      return false;
    Operation *first = group.members.front().first;
    Location loc = first->getLoc();
    AffineExpr tiles = (ir::product_of(entry_, *extents) + group.below * (height_ - 1)).floorDiv(height_);
    b_.setInsertionPoint(first);
    for (AffineExpr formula : *extents)
      group.extents.push_back(extent(b_, entry_, loc, formula));
    auto constant = dyn_cast<AffineConstantExpr>(tiles);
    int64_t count = constant ? constant.getValue() : ShapedType::kDynamic;
    auto type = [&](ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, b_.getI32Type()); };
    group.made = ir::GroupOp::create(b_, loc, type({count, height_}), type({count}), group.numbers.getType(),
                                     group.numbers, index(loc, extent(b_, entry_, loc, tiles)), group.below);
    return true;
  }

  /// The index of each axis of the numbers at which row number `row` is.
  static SmallVector<Value> places_of_row(OpBuilder &body, Location loc, Value row, ArrayRef<OpFoldResult> extents) {
    SmallVector<Value> out(extents.size());
    for (size_t i = extents.size(); i-- > 0;) {
      if (i == 0) {
        out[0] = row;
        break;
      }
      Value by = dyn_cast<Value>(extents[i]);
      if (by) // of no rows nothing is read, but it is divided all the same
        by = arith::MaxSIOp::create(body, loc, by, arith::ConstantIndexOp::create(body, loc, 1));
      else
        by = arith::ConstantIndexOp::create(body, loc, cast<IntegerAttr>(cast<Attribute>(extents[i])).getInt());
      Value quotient = arith::FloorDivSIOp::create(body, loc, row, by);
      out[i] = arith::SubIOp::create(body, loc, row, arith::MulIOp::create(body, loc, quotient, by));
      row = quotient;
    }
    return out;
  }

  Value number_of_row(OpBuilder &body, Location loc, Value element) {
    return arith::IndexCastOp::create(body, loc, body.getIndexType(), element);
  }

  /// Rows of a tensor in the order of the tiles: (tiles, places of a tile, the other axes). `row_of_axis`: which axis
  /// of the numbers each axis of the tensor is, or -1.
  Value gathered(Group &group, Value tensor, ArrayRef<int64_t> row_of_axis, Location loc) {
    Value &known = group.gathered[{tensor, b_.getI64ArrayAttr(row_of_axis)}];
    if (known)
      return known;
    auto type = cast<RankedTensorType>(tensor.getType());
    auto own = ir::extent_formulas(tensor);
    if (failed(own))
      return {};
    SmallVector<OpFoldResult> shape = tile_extents(group);
    SmallVector<unsigned> loop_of_axis(type.getRank());
    for (auto [axis, row] : llvm::enumerate(row_of_axis))
      if (row < 0) {
        loop_of_axis[axis] = unsigned(shape.size());
        shape.push_back(extent(b_, entry_, loc, (*own)[axis]));
      }
    Value empty = tensor::EmptyOp::create(b_, loc, shape, type.getElementType());
    unsigned loops = unsigned(shape.size());
    SmallVector<AffineMap> maps{b_.getMultiDimIdentityMap(loops).getMajorSubMap(2), b_.getMultiDimIdentityMap(loops)};
    SmallVector<utils::IteratorType> kinds(loops, utils::IteratorType::parallel);
    auto made = GenericOp::create(
        b_, loc, TypeRange(empty.getType()), ValueRange(group.made.getRows()), ValueRange(empty), maps, kinds,
        [&](OpBuilder &body, Location loc, ValueRange elements) {
          SmallVector<Value> rows = places_of_row(body, loc, number_of_row(body, loc, elements[0]), group.extents);
          SmallVector<Value> at;
          for (auto [axis, row] : llvm::enumerate(row_of_axis))
            at.push_back(row < 0 ? Value(linalg::IndexOp::create(body, loc, loop_of_axis[axis])) : rows[row]);
          linalg::YieldOp::create(body, loc, tensor::ExtractOp::create(body, loc, tensor, at).getResult());
        });
    return known = made.getResult(0);
  }

  SmallVector<OpFoldResult> tile_extents(Group &group) {
    auto constant = group.made.getTiles().getDefiningOp<arith::ConstantIndexOp>();
    return {constant ? OpFoldResult(b_.getIndexAttr(constant.value())) : OpFoldResult(group.made.getTiles()),
            b_.getIndexAttr(height_)};
  }

  /// One op with tiles and their places as its first loops, in the place of its rows.
  void rewrite(GenericOp op, Member &member, Group &group) {
    MLIRContext *context = op.getContext();
    Location loc = op.getLoc();
    if (member.product)
      drop_number(*member.product);
    b_.setInsertionPoint(op);
    auto extents = ir::loop_extents(op);
    SmallVector<AffineExpr> place(op.getNumLoops()); // of a loop that is no row
    SmallVector<utils::IteratorType> kinds(2, utils::IteratorType::parallel);
    for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
      if (!llvm::is_contained(member.rows, loop)) {
        place[loop] = getAffineDimExpr(unsigned(kinds.size()), context);
        kinds.push_back(op.getIteratorTypesArray()[loop]);
      }
    AffineExpr tile = getAffineDimExpr(0, context), in_tile = getAffineDimExpr(1, context);
    auto map_of = [&](ArrayRef<AffineExpr> results) {
      return AffineMap::get(unsigned(kinds.size()), 0, results, context);
    };
    auto row_of = [&](AffineExpr loop) -> int64_t {
      auto found = llvm::find(member.rows, cast<AffineDimExpr>(loop).getPosition());
      return found == member.rows.end() ? -1 : found - member.rows.begin();
    };
    /// Behind the tile and the place in it: the axes that are no rows, in their order.
    auto behind_rows = [&](AffineMap map, llvm::function_ref<bool(unsigned)> is_row) {
      SmallVector<AffineExpr> out{tile, in_tile};
      for (auto [axis, loop] : llvm::enumerate(map.getResults()))
        if (!is_row(unsigned(axis)))
          out.push_back(place[cast<AffineDimExpr>(loop).getPosition()]);
      return map_of(out);
    };

    SmallVector<Value> operands;
    SmallVector<AffineMap> maps;
    SmallVector<unsigned> arguments; // of the body, in the order of the operands
    for (OpOperand *operand : op.getDpsInputOperands()) {
      AffineMap map = op.getMatchingIndexingMap(operand);
      bool has_rows = llvm::any_of(map.getResults(), [&](AffineExpr loop) { return row_of(loop) >= 0; });
      auto producer = group.members.find(operand->get().getDefiningOp());
      if (!has_rows) {
        operands.push_back(operand->get());
        SmallVector<AffineExpr> results = llvm::map_to_vector(
            map.getResults(), [&](AffineExpr e) { return place[cast<AffineDimExpr>(e).getPosition()]; });
        maps.push_back(map_of(results));
      } else if (!op.payloadUsesValueFromOperand(operand)) {
        continue; // told how far rows go
      } else if (producer != group.members.end() && is_along(op, *operand, member, producer->second)) {
        operands.push_back(producer->second.sorted);
        auto of = cast<GenericOp>(producer->first);
        llvm::SmallBitVector rows(map.getNumResults());
        for (size_t i = 0; i < producer->second.rows.size(); ++i)
          rows.set(axis_of_row(of, producer->second, i));
        maps.push_back(behind_rows(map, [&](unsigned axis) { return rows.test(axis); }));
      } else {
        SmallVector<int64_t> row_of_axis = llvm::map_to_vector(map.getResults(), row_of);
        operands.push_back(gathered(group, operand->get(), row_of_axis, loc));
        maps.push_back(behind_rows(map, [&](unsigned axis) { return row_of_axis[axis] >= 0; }));
      }
      arguments.push_back(operand->getOperandNumber());
    }
    unsigned tiles_operand = unsigned(operands.size()), rows_operand = tiles_operand;
    if (member.product) {
      operands.push_back(group.made.getOfTiles());
      maps.push_back(map_of({tile}));
      ++rows_operand;
    }
    bool needs_rows = llvm::any_of(op.getBlock()->getOps<linalg::IndexOp>(), [&](linalg::IndexOp loop) {
      return llvm::is_contained(member.rows, loop.getDim());
    });
    if (needs_rows) {
      operands.push_back(group.made.getRows());
      maps.push_back(map_of({tile, in_tile}));
    }

    AffineMap out = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    maps.push_back(behind_rows(out, [&](unsigned axis) { return row_of(out.getResult(axis)) >= 0; }));
    SmallVector<OpFoldResult> shape = tile_extents(group);
    for (AffineExpr loop : out.getResults())
      if (row_of(loop) < 0)
        shape.push_back(extent(b_, entry_, loc, (*extents)[cast<AffineDimExpr>(loop).getPosition()]));
    Value init = tensor::EmptyOp::create(b_, loc, shape, cast<RankedTensorType>(op.getType(0)).getElementType());
    if (auto fill = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>())
      init = linalg::FillOp::create(b_, loc, fill.getInputs()[0], init).getResult(0);

    auto made = GenericOp::create(
        b_, loc, TypeRange(init.getType()), operands, ValueRange(init), maps, kinds,
        [&](OpBuilder &body, Location loc, ValueRange elements) {
          IRMapping map;
          for (auto [number, element] : llvm::zip(arguments, elements))
            map.map(op.getBlock()->getArgument(number), element);
          map.map(op.getRegionOutputArgs()[0], elements.back());
          SmallVector<Value> rows;
          for (Operation &inner : *op.getBlock()) {
            if (auto loop = dyn_cast<linalg::IndexOp>(inner)) {
              if (int64_t row = row_of(getAffineDimExpr(loop.getDim(), context)); row >= 0) {
                if (rows.empty())
                  rows = places_of_row(body, loc, number_of_row(body, loc, elements[rows_operand]), group.extents);
                map.map(loop.getResult(), rows[row]);
              } else {
                unsigned own = cast<AffineDimExpr>(place[loop.getDim()]).getPosition();
                map.map(loop.getResult(), linalg::IndexOp::create(body, loc, own).getResult());
              }
            } else if (member.product && &inner == member.product->read) {
              map.map(inner.getResult(0), read_of_tile(body, *member.product, map, elements[tiles_operand]));
            } else {
              body.clone(inner, map);
            }
          }
        });
    member.sorted = made.getResult(0);
  }

  /// Forgets how a product comes by its number, which is to be the tile's.
  static void drop_number(const Keyed &product) {
    tensor::ExtractOp read = product.read;
    OpBuilder body(read);
    read.getIndicesMutable()[product.axis].set(arith::ConstantIndexOp::create(body, read.getLoc(), 0));
    for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(*read->getBlock())))
      if (inner.use_empty() && isPure(&inner) && !inner.hasTrait<OpTrait::IsTerminator>())
        inner.erase();
  }

  /// The element of the weight that belongs to the tile's number; 0 of a tile without rows.
  static Value read_of_tile(OpBuilder &body, const Keyed &product, IRMapping &map, Value number) {
    tensor::ExtractOp read = product.read;
    Location loc = read.getLoc();
    Value none = arith::ConstantIntOp::create(body, loc, 0, 32);
    Value has_rows = arith::CmpIOp::create(body, loc, arith::CmpIPredicate::sge, number, none);
    Value clamped = arith::MaxSIOp::create(body, loc, number, none);
    SmallVector<Value> at;
    for (auto [axis, index] : llvm::enumerate(read.getIndices()))
      at.push_back(axis == product.axis
                       ? arith::IndexCastOp::create(body, loc, body.getIndexType(), clamped).getResult()
                       : map.lookup(index));
    Value element = tensor::ExtractOp::create(body, loc, read.getTensor(), at);
    Value zero = arith::ConstantOp::create(body, loc, body.getZeroAttr(element.getType()));
    return arith::SelectOp::create(body, loc, has_rows, element, zero);
  }

  /// What others read of a member, at the places of its rows: (rows.., the other axes).
  void put_back(GenericOp op, Member &member, Group &group) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getUses())
      if (!group.members.contains(use.getOwner()))
        uses.push_back(&use);
    if (uses.empty())
      return;
    Location loc = op.getLoc();
    b_.setInsertionPointAfter(member.sorted.getDefiningOp());
    auto type = cast<RankedTensorType>(member.sorted.getType());
    SmallVector<ReassociationIndices> together{{0, 1}};
    for (int64_t axis = 2; axis < type.getRank(); ++axis)
      together.push_back({axis});
    Value flat = tensor::CollapseShapeOp::create(b_, loc, member.sorted, together);
    unsigned rows = unsigned(member.rows.size());
    SmallVector<unsigned> axis_now(type.getRank() - 2 + rows, unsigned(-1)); // of each axis of the op's own result
    for (unsigned i = 0; i < rows; ++i)
      axis_now[axis_of_row(op, member, i)] = i;
    SmallVector<OpFoldResult> shape(group.extents);
    auto own = ir::extent_formulas(op->getResult(0));
    for (auto [axis, now] : llvm::enumerate(axis_now))
      if (now == unsigned(-1)) {
        now = unsigned(shape.size());
        shape.push_back(extent(b_, entry_, loc, (*own)[axis]));
      }
    unsigned loops = unsigned(shape.size());
    Value empty = tensor::EmptyOp::create(b_, loc, shape, type.getElementType());
    SmallVector<AffineMap> maps{b_.getMultiDimIdentityMap(loops).getMajorSubMap(rows),
                                b_.getMultiDimIdentityMap(loops)};
    SmallVector<utils::IteratorType> kinds(loops, utils::IteratorType::parallel);
    Value back =
        GenericOp::create(
            b_, loc, TypeRange(empty.getType()), ValueRange(group.made.getPlaces()), ValueRange(empty), maps, kinds,
            [&](OpBuilder &body, Location loc, ValueRange elements) {
              SmallVector<Value> at{number_of_row(body, loc, elements[0])};
              for (unsigned loop = rows; loop < loops; ++loop)
                at.push_back(linalg::IndexOp::create(body, loc, loop));
              linalg::YieldOp::create(body, loc, tensor::ExtractOp::create(body, loc, flat, at).getResult());
            })
            .getResult(0);
    Value in_order; // with the axes as they were
    for (OpOperand *use : uses)
      if (!read_at(*use, back, axis_now)) {
        if (!in_order)
          in_order = copy(back, axis_now, op, loc);
        use->set(in_order);
      }
  }

  /// Makes a reader take its elements of `back`, whose axes stand otherwise; false: it takes the tensor as it is.
  static bool read_at(OpOperand &use, Value back, ArrayRef<unsigned> axis_now) {
    if (auto reader = dyn_cast<GenericOp>(use.getOwner()); reader && reader.isDpsInput(&use)) {
      AffineMap map = reader.getMatchingIndexingMap(&use);
      SmallVector<AffineExpr> results(map.getNumResults());
      for (auto [axis, now] : llvm::enumerate(axis_now))
        results[now] = map.getResult(unsigned(axis));
      SmallVector<AffineMap> maps = reader.getIndexingMapsArray();
      maps[use.getOperandNumber()] = AffineMap::get(map.getNumDims(), 0, results, map.getContext());
      reader.setIndexingMapsAttr(Builder(map.getContext()).getAffineMapArrayAttr(maps));
      use.set(back);
      return true;
    }
    auto read = dyn_cast<tensor::ExtractOp>(use.getOwner());
    if (!read)
      return false;
    SmallVector<Value> at(axis_now.size());
    for (auto [axis, now] : llvm::enumerate(axis_now))
      at[now] = read.getIndices()[axis];
    read.getIndicesMutable().assign(at);
    use.set(back);
    return true;
  }

  Value copy(Value back, ArrayRef<unsigned> axis_now, GenericOp op, Location loc) {
    if (llvm::is_sorted(axis_now))
      return back;
    SmallVector<OpFoldResult> shape;
    auto own = ir::extent_formulas(op->getResult(0));
    SmallVector<AffineExpr> from(axis_now.size());
    for (auto [axis, now] : llvm::enumerate(axis_now)) {
      shape.push_back(extent(b_, entry_, loc, (*own)[axis]));
      from[now] = b_.getAffineDimExpr(unsigned(axis));
    }
    unsigned loops = unsigned(shape.size());
    Value empty = tensor::EmptyOp::create(b_, loc, shape, cast<RankedTensorType>(back.getType()).getElementType());
    SmallVector<AffineMap> maps{AffineMap::get(loops, 0, from, b_.getContext()), b_.getMultiDimIdentityMap(loops)};
    SmallVector<utils::IteratorType> kinds(loops, utils::IteratorType::parallel);
    return GenericOp::create(b_, loc, TypeRange(empty.getType()), ValueRange(back), ValueRange(empty), maps, kinds,
                             [](OpBuilder &body, Location loc, ValueRange elements) {
                               linalg::YieldOp::create(body, loc, elements[0]);
                             })
        .getResult(0);
  }

  Block &block_;
  Operation *entry_;
  int64_t height_;
  OpBuilder b_;
  std::vector<Group> groups_;
  SmallVector<GenericOp> made_numbers_;
};

struct GroupRows : PassWrapper<GroupRows, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GroupRows)
  explicit GroupRows(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "group_rows"; }
  StringRef getDescription() const override { return "rows sorted by the number that chooses their weight"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    if (target.gpu)
      return;
    for (func::FuncOp entry : entries(getOperation())) {
      SmallVector<Block *> blocks{&entry.front()};
      entry.walk([&](scf::ForOp loop) { blocks.push_back(loop.getBody()); });
      for (Block *block : blocks)
        Grouping(*block, entry, tile_height(target)).run();
    }
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> group_rows(const Target &target) { return std::make_unique<GroupRows>(target); }

} // namespace heddle::passes
