// A function takes 32 or 48 columns of panels and any number of rows, 32 at a time:
//
//   two tiles of rows (the second of the last 32 may be shorter), two of the panel, four of sums
//     for 16 groups of terms: ask for lines of the next panel, load four tiles, multiply four times
//     groups left over: the same of copies on the stack that zeros fill up
//
// and 16 rows or fewer that are left take one tile of rows. With 48 columns there are six sums, and one tile each of
// rows and of the panel: the second 16 rows find the panel's last tile, and load the others again. How many rows a tile
// has is configured, so nothing is read or written past the last row. A configuration takes some 200 cycles, as long as
// the products of 64 terms, so it is made when another one than the task's last is needed, and given back when the task
// ends.
#include "compiler/emit/kernels/matrix_tiles.h"

#include "compiler/halide/prefetch.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/product/split_factors.h"
#include "runtime/cpu_features.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsX86.h"

#include <functional>
#include <map>
#include <memory>

namespace heddle {

using llvm::Value;

namespace {

constexpr int columns = 16; // of a tile of sums, and groups of terms in a row of the others

/// What the function of a piece is written with: a place in the code, and loops.
struct Code {
  llvm::IRBuilder<> at;
  llvm::Function *function;

  explicit Code(llvm::Function *function)
      : at(llvm::BasicBlock::Create(function->getContext(), "", function)), function(function) {}

  Value *number(int64_t value) { return at.getInt64(uint64_t(value)); }
  Value *address(Value *base, Value *bytes) { return at.CreateGEP(at.getInt8Ty(), base, bytes); }
  Value *memory(int64_t bytes) { // of the stack; before any loop
    llvm::IRBuilder<> entry(&function->getEntryBlock(), function->getEntryBlock().begin());
    llvm::AllocaInst *memory = entry.CreateAlloca(llvm::ArrayType::get(at.getInt8Ty(), uint64_t(bytes)));
    memory->setAlignment(llvm::Align(MatrixTile::bytes));
    return memory;
  }

  /// for i in 0 .. count - 1
  void repeat(Value *count, const std::function<void(Value *i)> &step) {
    llvm::BasicBlock *before = at.GetInsertBlock(), *head = block(), *body = block(), *after = block();
    at.CreateBr(head);
    at.SetInsertPoint(head);
    llvm::PHINode *i = at.CreatePHI(at.getInt64Ty(), 2);
    i->addIncoming(number(0), before);
    at.CreateCondBr(at.CreateICmpULT(i, count), body, after);
    at.SetInsertPoint(body);
    step(i);
    i->addIncoming(at.CreateAdd(i, number(1)), at.GetInsertBlock());
    at.CreateBr(head);
    at.SetInsertPoint(after);
  }
  void where(Value *condition, const std::function<void()> &then) {
    llvm::BasicBlock *yes = block(), *after = block();
    at.CreateCondBr(condition, yes, after);
    at.SetInsertPoint(yes);
    then();
    at.CreateBr(after);
    at.SetInsertPoint(after);
  }

  llvm::BasicBlock *block() { return llvm::BasicBlock::Create(function->getContext(), "", function); }
};

/// A row of a tile, in 32 bits an element: a sum, or a group of terms.
llvm::Type *row_type(Code &code) { return llvm::FixedVectorType::get(code.at.getInt32Ty(), columns); }

constexpr int all_tiles = 8; // of the unit

/// Its tiles by number, where so many of a panel lie abreast: twice as many of sums, then those of rows and of the
/// panel.
struct Numbers {
  int abreast;
  int sum(int row, int column) const { return row * abreast + column; }
  int rows(int row) const { return abreast == 2 ? 4 + row : 6; }
  int panel(int column) const { return abreast == 2 ? 6 + column : 7; }
  bool is_of_panel(int tile) const { return tile >= panel(0); }
  bool is_of_second_rows(int tile) const {
    return tile < 2 * abreast ? tile >= abreast : abreast == 2 && tile == rows(1);
  }
};

/// The instructions of a matrix unit. Rows are counted in i64, a tile's rows have 64 bytes.
class Unit {
public:
  explicit Unit(Code &code) : code(code) {}
  virtual ~Unit() = default;
  virtual void zero(int tile, Value *rows) = 0;
  virtual void load(int tile, Value *rows, Value *from, Value *stride) = 0;
  virtual void store(int tile, Value *rows, Value *to, Value *stride) = 0;
  /// `sum` += `left` x `right`, of so many rows.
  virtual void multiply(int sum, Value *rows, int left, int right) = 0;

protected:
  Code &code;
};

class Amx : public Unit {
public:
  Amx(Code &code, const MicroKernel &micro_kernel)
      : Unit(code),
        product(micro_kernel.sum.is_float() ? llvm::Intrinsic::x86_tdpbf16ps : llvm::Intrinsic::x86_tdpbusd) {}

  void zero(int tile, Value *) override { call(llvm::Intrinsic::x86_tilezero, {number(tile)}); }
  void load(int tile, Value *, Value *from, Value *stride) override {
    call(llvm::Intrinsic::x86_tileloadd64, {number(tile), from, stride});
  }
  void store(int tile, Value *, Value *to, Value *stride) override {
    call(llvm::Intrinsic::x86_tilestored64, {number(tile), to, stride});
  }
  void multiply(int sum, Value *, int left, int right) override {
    call(product, {number(sum), number(left), number(right)});
  }

private:
  Value *number(int tile) { return code.at.getInt8(uint8_t(tile)); }
  void call(llvm::Intrinsic::ID intrinsic, llvm::ArrayRef<Value *> arguments) {
    code.at.CreateIntrinsic(intrinsic, arguments);
  }
  llvm::Intrinsic::ID product;
};

/// The same in plain arithmetic: a tile is a block of the stack.
class Portable : public Unit {
public:
  Portable(Code &code, const MicroKernel &micro_kernel) : Unit(code), micro_kernel(micro_kernel) {
    for (Value *&tile : tiles)
      tile = code.memory(columns * MatrixTile::bytes);
  }

  void zero(int tile, Value *rows) override {
    each_row(rows, [&](Value *offset, Value *) {
      code.at.CreateStore(llvm::Constant::getNullValue(row_type(code)), code.address(tiles[tile], offset));
    });
  }
  void load(int tile, Value *rows, Value *from, Value *stride) override {
    each_row(rows, [&](Value *offset, Value *row) {
      Value *place = code.address(from, code.at.CreateMul(row, stride));
      code.at.CreateStore(code.at.CreateAlignedLoad(row_type(code), place, llvm::Align(1)),
                          code.address(tiles[tile], offset));
    });
  }
  void store(int tile, Value *rows, Value *to, Value *stride) override {
    each_row(rows, [&](Value *offset, Value *row) {
      Value *place = code.address(to, code.at.CreateMul(row, stride));
      code.at.CreateAlignedStore(code.at.CreateLoad(row_type(code), code.address(tiles[tile], offset)), place,
                                 llvm::Align(1));
    });
  }
  void multiply(int sum, Value *rows, int left, int right) override {
    llvm::IRBuilder<> &at = code.at;
    llvm::Type *type =
        llvm::FixedVectorType::get(micro_kernel.sum.is_float() ? at.getFloatTy() : at.getInt32Ty(), columns);
    each_row(rows, [&](Value *offset, Value *) {
      code.repeat(code.number(columns), [&](Value *group) {
        Value *inside = at.CreateMul(group, code.number(4));
        Value *terms = at.CreateLoad(at.getInt32Ty(), code.address(code.address(tiles[left], offset), inside));
        Value *row = at.CreateVectorSplat(columns, terms);
        Value *panel = at.CreateLoad(row_type(code),
                                     code.address(tiles[right], at.CreateMul(group, code.number(MatrixTile::bytes))));
        Value *place = code.address(tiles[sum], offset), *value = at.CreateLoad(type, place);
        const bool splits = micro_kernel.splits(); // a word has two terms
        for (int i = 0; i < (splits ? 2 : micro_kernel.group); ++i) {
          Value *a = term(row, i, splits ? Halide::BFloat(16) : micro_kernel.row),
                *b = term(panel, i, splits ? Halide::BFloat(16) : micro_kernel.panel);
          value = micro_kernel.sum.is_float() ? at.CreateFAdd(value, at.CreateFMul(a, b))
                                              : at.CreateAdd(value, at.CreateMul(a, b));
        }
        at.CreateStore(value, place);
      });
    });
  }

private:
  void each_row(Value *rows, const std::function<void(Value *offset, Value *row)> &body) {
    code.repeat(rows, [&](Value *row) { body(code.at.CreateMul(row, code.number(MatrixTile::bytes)), row); });
  }

  /// Term number `i` of each group, in the sum's type.
  Value *term(Value *groups, int i, Halide::Type type) {
    llvm::IRBuilder<> &at = code.at;
    uint64_t above = uint64_t(32 - type.bits() * (i + 1)), below = uint64_t(32 - type.bits());
    Value *first = at.CreateShl(groups, above); // the term in the upper bits
    if (type.is_float())
      return at.CreateBitCast(at.CreateAnd(first, 0xffff0000u), llvm::FixedVectorType::get(at.getFloatTy(), columns));
    return type.is_uint() ? at.CreateLShr(first, below) : at.CreateAShr(first, below);
  }
  const MicroKernel &micro_kernel;
  Value *tiles[all_tiles];
};

/// The arguments of a function, and of its pieces: what a call is given (matrix_tile.h). Of a piece `height` are the
/// rows of its last tile, and instead of the task's configuration it is given how many pieces there are.
struct Call {
  Value *sums, *sums_stride, *rows, *rows_stride, *panel, *panel_stride, *half, *height, *groups, *ahead, *lines, *last,
      *runs, *apart;
  explicit Call(llvm::Function *f)
      : sums(f->getArg(0)), sums_stride(f->getArg(1)), rows(f->getArg(2)), rows_stride(f->getArg(3)),
        panel(f->getArg(4)), panel_stride(f->getArg(5)), half(f->getArg(6)), height(f->getArg(7)), groups(f->getArg(8)),
        ahead(f->getArg(9)), lines(f->getArg(10)), last(f->getArg(11)), runs(f->getArg(12)), apart(f->getArg(13)) {}
};

class Writer {
public:
  Writer(llvm::Module &module, const MicroKernel &micro_kernel, int width, bool has_unit)
      : module_(module), micro_kernel_(micro_kernel), numbers_{width / columns}, has_unit_(has_unit) {}

  /// The function that kernels call: whole pieces of two tiles of rows, then what is left.
  void write(llvm::Function *function) {
    Code code(function);
    llvm::IRBuilder<> &at = code.at;
    Call call(function);
    Value *height = at.CreateZExt(call.height, at.getInt64Ty()), *rows = code.number(micro_kernel_.rows),
          *twice = code.number(2 * micro_kernel_.rows);
    Value *whole = at.CreateUDiv(height, twice), *left = at.CreateURem(height, twice);
    llvm::Function *two = piece(2), *one = piece(1);
    // A piece asks for as many lines as its steps do.
    Value *steps =
        at.CreateUDiv(at.CreateZExt(call.groups, at.getInt64Ty()), code.number(groups_of_step(micro_kernel_)));
    Value *asked =
        at.CreateMul(at.CreateMul(steps, at.CreateZExt(call.lines, at.getInt64Ty())), code.number(MatrixTile::bytes));
    auto invoke = [&](llvm::Function *piece, Value *skipped, Value *pieces, Value *rows_of_piece, Value *last) {
      configure(code, rows_of_piece, call.last);
      at.CreateCall(piece, {code.address(call.sums, at.CreateMul(skipped, call.sums_stride)), call.sums_stride,
                            code.address(call.rows, at.CreateMul(skipped, call.rows_stride)), call.rows_stride,
                            call.panel, call.panel_stride, call.half, last, call.groups,
                            code.address(call.ahead, at.CreateMul(at.CreateUDiv(skipped, twice), asked)), call.lines,
                            pieces, call.runs, call.apart});
    };
    Value *skipped = at.CreateMul(whole, twice), *many = at.CreateICmpUGT(left, rows);
    code.where(at.CreateICmpUGT(whole, code.number(0)), [&] { invoke(two, code.number(0), whole, twice, rows); });
    if (numbers_.abreast == 2) {
      code.where(many, [&] { invoke(two, skipped, code.number(1), left, at.CreateSub(left, rows)); });
      left = at.CreateSelect(many, code.number(0), left);
    } else { // the tile of rows is as high for the first as for the second
      code.where(many, [&] { invoke(one, skipped, code.number(1), rows, rows); });
      skipped = at.CreateSelect(many, at.CreateAdd(skipped, rows), skipped);
      left = at.CreateSelect(many, at.CreateSub(left, rows), left);
    }
    code.where(at.CreateICmpUGT(left, code.number(0)), [&] { invoke(one, skipped, code.number(1), left, left); });
    at.CreateRet(at.getInt32(0));
    function->setLinkage(llvm::GlobalValue::InternalLinkage);
  }

  /// The function that a task calls at its end.
  void write_end(llvm::Function *function) {
    Code code(function);
    if (has_unit_) {
      Value *rows = code.at.CreateLoad(code.at.getInt32Ty(), function->getArg(0));
      code.where(code.at.CreateICmpNE(rows, code.at.getInt32(0)),
                 [&] { code.at.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}); });
    }
    code.at.CreateRet(code.at.getInt32(0));
    function->setLinkage(llvm::GlobalValue::InternalLinkage);
  }

private:
  /// Makes the configuration for pieces of so many rows, unless it is the task's last one.
  void configure(Code &code, Value *rows, Value *last) {
    if (!has_unit_)
      return;
    llvm::IRBuilder<> &at = code.at;
    Value *number = at.CreateTrunc(at.CreateAdd(rows, code.number(64 * numbers_.abreast)), at.getInt32Ty());
    code.where(at.CreateICmpNE(at.CreateLoad(at.getInt32Ty(), last), number), [&] {
      at.CreateStore(number, last);
      at.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg,
                         {code.address(configurations(), at.CreateMul(rows, code.number(64)))});
    });
  }

  /// By rows of a piece, those that LDTILECFG takes: the palette, then bytes of a row and rows of each tile.
  llvm::Constant *configurations() {
    const std::string name = "heddle_tile_configurations_" + std::to_string(numbers_.abreast);
    if (llvm::GlobalVariable *known = module_.getNamedGlobal(name))
      return known;
    const int most = micro_kernel_.rows;
    std::vector<uint8_t> all(size_t(2 * most + 1) * 64);
    for (int rows = 1; rows <= 2 * most; ++rows) {
      uint8_t *one = &all[size_t(rows) * 64], *bytes_of_row = one + 16, *rows_of = one + 48;
      one[0] = 1;
      for (int tile = 0; tile < all_tiles; ++tile) {
        bytes_of_row[2 * tile] = MatrixTile::bytes;
        rows_of[tile] = uint8_t(numbers_.is_of_panel(tile)         ? columns
                                : numbers_.is_of_second_rows(tile) ? std::max(rows - most, 1)
                                                                   : std::min(rows, most));
      }
    }
    auto *data = llvm::ConstantDataArray::get(module_.getContext(), all);
    auto *table =
        new llvm::GlobalVariable(module_, data->getType(), true, llvm::GlobalValue::InternalLinkage, data, name);
    table->setAlignment(llvm::Align(64));
    return table;
  }

  /// So many pieces of `tiles` tiles of rows each, the last of them of `height` rows.
  llvm::Function *piece(int tiles) {
    llvm::LLVMContext &context = module_.getContext();
    llvm::Type *pointer = llvm::PointerType::get(context, 0), *i64 = llvm::Type::getInt64Ty(context);
    auto *type =
        llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                {pointer, i64, pointer, i64, pointer, i64, i64, i64, llvm::Type::getInt32Ty(context),
                                 pointer, llvm::Type::getInt32Ty(context), i64, llvm::Type::getInt32Ty(context), i64},
                                false);
    auto *function =
        llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage,
                               function_of(micro_kernel_, width()) + "_by_" + std::to_string(tiles), module_);
    function->addFnAttr(llvm::Attribute::NoInline); // one of the two has two callers
    function->addFnAttr(llvm::Attribute::NoUnwind);
    Code code(function);
    std::unique_ptr<Unit> unit;
    if (has_unit_)
      unit = std::make_unique<Amx>(code, micro_kernel_);
    else
      unit = std::make_unique<Portable>(code, micro_kernel_);
    write_piece(code, *unit, tiles);
    return function;
  }

  void write_piece(Code &code, Unit &unit, int tiles) {
    llvm::IRBuilder<> &at = code.at;
    Call call(code.function);
    Value *pieces = call.last, *full = code.number(micro_kernel_.rows);
    Value *groups = at.CreateZExt(call.groups, at.getInt64Ty()), *per_step = code.number(groups_of_step(micro_kernel_)),
          *step_bytes = code.number(groups_of_step(micro_kernel_) * MatrixTile::bytes / MatrixTile::groups),
          *copied_row = code.number(numbers_.abreast * MatrixTile::bytes);
    Value *next = code.number(MatrixTile::bytes); // from a tile to the one beside it, in copies and sums
    auto times = [&](int count, Value *bytes) { return at.CreateMul(code.number(count), bytes); };
    Value *steps = at.CreateUDiv(groups, per_step), *left = at.CreateURem(groups, per_step);
    Value *lines = at.CreateZExt(call.lines, at.getInt64Ty()), *line = code.number(MatrixTile::bytes);
    auto height = [&](int tile) { return tile + 1 == tiles ? call.height : full; };
    auto below = [&](Value *base, int tile, Value *stride) {
      return code.address(base, at.CreateMul(code.number(tile * micro_kernel_.rows), stride));
    };
    // What is left of the panel lies on the stack, zeros behind it, and so does what is left of rows.
    Value *panel_left = code.memory(columns * numbers_.abreast * MatrixTile::bytes),
          *rows_left = code.memory(2 * columns * 64);
    Value *some_left = at.CreateZExt(at.CreateICmpUGT(left, code.number(0)), at.getInt64Ty());
    Value *panel_end = code.address(call.panel, at.CreateMul(at.CreateMul(steps, per_step), call.panel_stride));
    const bool in_steps = micro_kernel_.splits(); // whole ones: copies are
    auto where_left = [&](const std::function<void(Value *)> &body) {
      if (!in_steps)
        code.repeat(some_left, body);
    };
    where_left([&](Value *) {
      code.repeat(code.number(columns), [&](Value *group) {
        Value *to = at.CreateMul(group, copied_row), *from = at.CreateMul(group, call.panel_stride);
        Value *mask = at.CreateVectorSplat(columns, at.CreateICmpULT(group, left));
        for (int i = 0; i < numbers_.abreast; ++i)
          copy(code, code.address(panel_left, at.CreateAdd(to, times(i, next))),
               code.address(panel_end, at.CreateAdd(from, times(i, call.half))), mask);
      });
    });
    code.repeat(pieces, [&](Value *number) {
      Value *first = at.CreateMul(number, code.number(tiles * micro_kernel_.rows));
      Value *rows = code.address(call.rows, at.CreateMul(first, call.rows_stride));
      Value *to = code.address(call.sums, at.CreateMul(first, call.sums_stride));
      Value *rows_end = code.address(rows, at.CreateMul(steps, step_bytes));
      where_left([&](Value *) {
        llvm::SmallVector<llvm::Constant *> lanes;
        for (int i = 0; i < columns; ++i)
          lanes.push_back(at.getInt64(uint64_t(i)));
        Value *mask = at.CreateICmpULT(llvm::ConstantVector::get(lanes), at.CreateVectorSplat(columns, left));
        Value *count = at.CreateAdd(call.height, code.number((tiles - 1) * micro_kernel_.rows));
        code.repeat(count, [&](Value *row) {
          copy(code, code.address(rows_left, at.CreateMul(row, step_bytes)),
               code.address(rows_end, at.CreateMul(row, call.rows_stride)), mask);
        });
      });
      for (int row = 0; row < tiles; ++row)
        for (int i = 0; i < numbers_.abreast; ++i)
          unit.zero(numbers_.sum(row, i), height(row));
      auto load_rows_of = [&](int row, Value *from, Value *stride) {
        unit.load(numbers_.rows(row), height(row), below(from, row, stride), stride);
      };
      // All products of two parts but those of the least ones. What a panel's tile holds is not loaded again.
      auto multiply_parts = [&](Value *left, Value *stride, Value *right, Value *panel_stride, Value *half) {
        Value *part_of_panel = at.CreateMul(code.number(MatrixTile::groups), panel_stride);
        std::map<int, std::pair<int, int>> held; // by tile of the unit: which part of which of the panel's tiles
        auto load_panel = [&](int part, int i) {
          if (auto known = held.find(numbers_.panel(i)); known != held.end() && known->second == std::pair(part, i))
            return;
          held[numbers_.panel(i)] = {part, i};
          Value *tile = code.address(right, at.CreateAdd(times(part, part_of_panel), times(i, half)));
          unit.load(numbers_.panel(i), full, tile, panel_stride);
        };
        auto multiply_part = [&](int first, int count, int of_rows) { // of so many tiles of rows
          for (int row = first; row < first + count; ++row)
            load_rows_of(row, code.address(left, code.number(of_rows * MatrixTile::bytes)), stride);
          for (int of_panel = 0; of_rows + of_panel < split::parts; ++of_panel) {
            const int held_part = std::max(split::parts - 2 - of_rows, 0); // since the part of rows before
            const int part = (held_part + of_panel) % (split::parts - of_rows);
            for (int i = 0; i < numbers_.abreast; ++i) {
              load_panel(part, i);
              for (int row = first; row < first + count; ++row)
                unit.multiply(numbers_.sum(row, i), height(row), numbers_.rows(row), numbers_.panel(i));
            }
          }
        };
        const int together = numbers_.abreast == 2 ? tiles : 1; // tiles of rows that the unit has room for
        for (int row = 0; row < tiles; row += together)
          for (int of_rows = split::parts - 1; of_rows >= 0; --of_rows)
            multiply_part(row, together, of_rows);
      };
      // Rows lie far apart and take their time, so the panel's tiles are loaded between them (on an Emerald Rapids
      // 1.2 times as fast as after them).
      auto multiply = [&](Value *left, Value *stride, Value *right, Value *panel_stride, Value *half) {
        auto load_rows = [&](int row) { load_rows_of(row, left, stride); };
        auto load_panel = [&](int i) {
          unit.load(numbers_.panel(i), full, code.address(right, times(i, half)), panel_stride);
        };
        auto product = [&](int row, int i) {
          unit.multiply(numbers_.sum(row, i), height(row), numbers_.rows(row), numbers_.panel(i));
        };
        load_rows(0);
        if (numbers_.abreast == 2) {
          load_panel(0);
          load_panel(1);
          if (tiles == 2)
            load_rows(1);
          for (int i = 0; i < 2 * tiles; ++i)
            product(i / 2, i % 2);
          return;
        }
        for (int i = 0; i < numbers_.abreast; ++i) {
          load_panel(i);
          product(0, i);
        }
        if (tiles == 2)
          load_rows(1);
        for (int i = numbers_.abreast - 1; tiles == 2 && i >= 0; --i) {
          if (i + 1 < numbers_.abreast)
            load_panel(i);
          product(1, i);
        }
      };
      auto of_run = [&](Value *run, Value *step) {
        Value *so_far = at.CreateAdd(at.CreateMul(run, steps), step);
        Value *asked = at.CreateMul(at.CreateAdd(at.CreateMul(number, steps), step), lines); // before this step
        Value *ahead = code.address(call.ahead, at.CreateMul(asked, line));
        code.repeat(lines, [&](Value *i) {
          at.CreateIntrinsic(llvm::Intrinsic::prefetch, {ahead->getType()},
                             {code.address(ahead, at.CreateMul(i, line)), at.getInt32(reading),
                              at.getInt32(second_cache), at.getInt32(data)});
        });
        Value *from = at.CreateAdd(at.CreateMul(run, call.apart), at.CreateMul(step, step_bytes));
        Value *left = code.address(rows, from),
              *right = code.address(call.panel, at.CreateMul(at.CreateMul(so_far, per_step), call.panel_stride));
        if (micro_kernel_.splits())
          multiply_parts(left, call.rows_stride, right, call.panel_stride, call.half);
        else
          multiply(left, call.rows_stride, right, call.panel_stride, call.half);
      };
      code.repeat(at.CreateZExt(call.runs, at.getInt64Ty()),
                  [&](Value *run) { code.repeat(steps, [&](Value *step) { of_run(run, step); }); });
      where_left([&](Value *) { multiply(rows_left, step_bytes, panel_left, copied_row, next); });
      for (int row = 0; row < tiles; ++row)
        for (int i = 0; i < numbers_.abreast; ++i)
          unit.store(numbers_.sum(row, i), height(row), code.address(below(to, row, call.sums_stride), times(i, next)),
                     call.sums_stride);
    });
    at.CreateRetVoid();
  }

  /// A row of a tile, zeros where the mask says so.
  static void copy(Code &code, Value *to, Value *from, Value *mask) {
    Value *row = code.at.CreateMaskedLoad(row_type(code), from, llvm::Align(1), mask,
                                          llvm::Constant::getNullValue(row_type(code)));
    code.at.CreateStore(row, to);
  }

  int width() const { return numbers_.abreast * columns; }

  llvm::Module &module_;
  const MicroKernel &micro_kernel_;
  Numbers numbers_;
  bool has_unit_;
};

} // namespace

void define_matrix_tiles(llvm::Module &module, uint32_t cpu_features) {
  auto declared = [&](const std::string &name) {
    llvm::Function *function = module.getFunction(name);
    return function && function->isDeclaration() ? function : nullptr;
  };
  for (const MicroKernel &micro_kernel : micro_kernels())
    for (int width : {MatrixTile::width, MatrixTile::wide}) {
      llvm::Function *function = micro_kernel.takes_tiles() ? declared(function_of(micro_kernel, width)) : nullptr;
      if (!function)
        continue;
      Writer writer(module, micro_kernel, width, (micro_kernel.needs & ~cpu_features) == 0);
      writer.write(function);
      if (llvm::Function *end = declared(end_of_tiles))
        writer.write_end(end);
    }
}

} // namespace heddle
