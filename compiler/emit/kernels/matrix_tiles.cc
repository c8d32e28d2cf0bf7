// A function takes 32 columns of panels and any number of rows, 32 at a time:
//
//   two tiles of rows (the second of the last 32 may be shorter), two of the panel, four of sums
//     for 16 groups of terms: ask for lines of the next panel, load four tiles, multiply four times
//     groups left over: the same of copies on the stack that zeros fill up
//
// and 16 rows or fewer that are left take one tile of rows. How many rows a tile has is configured when a piece begins,
// by LLVM, so nothing is read or written past the last row; each piece is a function of its own, for its configuration.
#include "compiler/emit/kernels/matrix_tiles.h"

#include "compiler/kernels/contraction/prefetch.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "runtime/cpu_features.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsX86.h"

#include <functional>
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

  using Values = std::vector<Value *>;
  /// for i in 0 .. count - 1: the values that a step makes of those before it.
  Values repeat(Value *count, Values values, const std::function<Values(Value *i, Values values)> &step) {
    llvm::BasicBlock *before = at.GetInsertBlock(), *head = block(), *body = block(), *after = block();
    at.CreateBr(head);
    at.SetInsertPoint(head);
    llvm::PHINode *i = at.CreatePHI(at.getInt64Ty(), 2);
    i->addIncoming(number(0), before);
    std::vector<llvm::PHINode *> phis;
    for (Value *&value : values) {
      phis.push_back(at.CreatePHI(value->getType(), 2));
      phis.back()->addIncoming(value, before);
      value = phis.back();
    }
    at.CreateCondBr(at.CreateICmpULT(i, count), body, after);
    at.SetInsertPoint(body);
    Values next = step(i, values);
    i->addIncoming(at.CreateAdd(i, number(1)), at.GetInsertBlock());
    for (size_t v = 0; v < phis.size(); ++v)
      phis[v]->addIncoming(next[v], at.GetInsertBlock());
    at.CreateBr(head);
    at.SetInsertPoint(after);
    return values;
  }
  /// The same, of effects alone.
  void repeat(Value *count, const std::function<void(Value *i)> &step) {
    repeat(count, {}, [&](Value *i, Values) {
      step(i);
      return Values();
    });
  }

  llvm::BasicBlock *block() { return llvm::BasicBlock::Create(function->getContext(), "", function); }
};

/// A row of a tile, in 32 bits an element: a sum, or a group of terms.
llvm::Type *row_type(Code &code) { return llvm::FixedVectorType::get(code.at.getInt32Ty(), columns); }

/// The instructions of a matrix unit. Rows are counted in i16, a tile's rows have 64 bytes.
class Unit {
public:
  explicit Unit(Code &code) : code(code) {}
  virtual ~Unit() = default;
  virtual Value *zero(Value *rows) = 0;
  virtual Value *load(Value *rows, Value *from, Value *stride) = 0;
  virtual void store(Value *rows, Value *to, Value *stride, Value *tile) = 0;
  /// `sums` + `left` x `right`, of so many rows.
  virtual Value *multiply(Value *rows, Value *sums, Value *left, Value *right) = 0;

protected:
  Code &code;
};

class Amx : public Unit {
public:
  Amx(Code &code, const MicroKernel &micro_kernel)
      : Unit(code), product(micro_kernel.sum.is_float() ? llvm::Intrinsic::x86_tdpbf16ps_internal
                                                        : llvm::Intrinsic::x86_tdpbusd_internal) {}

  Value *zero(Value *rows) override { return call(llvm::Intrinsic::x86_tilezero_internal, {rows, bytes()}); }
  Value *load(Value *rows, Value *from, Value *stride) override {
    return call(llvm::Intrinsic::x86_tileloadd64_internal, {rows, bytes(), from, stride});
  }
  void store(Value *rows, Value *to, Value *stride, Value *tile) override {
    call(llvm::Intrinsic::x86_tilestored64_internal, {rows, bytes(), to, stride, tile});
  }
  Value *multiply(Value *rows, Value *sums, Value *left, Value *right) override {
    return call(product, {rows, bytes(), bytes(), sums, left, right});
  }

private:
  Value *bytes() { return code.at.getInt16(MatrixTile::bytes); }
  Value *call(llvm::Intrinsic::ID intrinsic, llvm::ArrayRef<Value *> arguments) {
    return code.at.CreateIntrinsic(intrinsic, arguments);
  }
  llvm::Intrinsic::ID product;
};

/// The same in plain arithmetic: a tile is a block of the stack.
class Portable : public Unit {
public:
  Portable(Code &code, const MicroKernel &micro_kernel) : Unit(code), micro_kernel(micro_kernel) {}

  Value *zero(Value *rows) override {
    Value *tile = code.memory(columns * MatrixTile::bytes);
    each_row(rows, [&](Value *offset, Value *) {
      code.at.CreateStore(llvm::Constant::getNullValue(row_type(code)), code.address(tile, offset));
    });
    return tile;
  }
  Value *load(Value *rows, Value *from, Value *stride) override {
    Value *tile = code.memory(columns * MatrixTile::bytes);
    each_row(rows, [&](Value *offset, Value *row) {
      Value *place = code.address(from, code.at.CreateMul(row, stride));
      code.at.CreateStore(code.at.CreateAlignedLoad(row_type(code), place, llvm::Align(1)), code.address(tile, offset));
    });
    return tile;
  }
  void store(Value *rows, Value *to, Value *stride, Value *tile) override {
    each_row(rows, [&](Value *offset, Value *row) {
      Value *place = code.address(to, code.at.CreateMul(row, stride));
      code.at.CreateAlignedStore(code.at.CreateLoad(row_type(code), code.address(tile, offset)), place, llvm::Align(1));
    });
  }
  Value *multiply(Value *rows, Value *sums, Value *left, Value *right) override {
    llvm::IRBuilder<> &at = code.at;
    llvm::Type *type =
        llvm::FixedVectorType::get(micro_kernel.sum.is_float() ? at.getFloatTy() : at.getInt32Ty(), columns);
    each_row(rows, [&](Value *offset, Value *) {
      code.repeat(code.number(columns), [&](Value *group) {
        Value *inside = at.CreateMul(group, code.number(4));
        Value *terms = at.CreateLoad(at.getInt32Ty(), code.address(code.address(left, offset), inside));
        Value *row = at.CreateVectorSplat(columns, terms);
        Value *panel =
            at.CreateLoad(row_type(code), code.address(right, at.CreateMul(group, code.number(MatrixTile::bytes))));
        Value *place = code.address(sums, offset), *sum = at.CreateLoad(type, place);
        for (int i = 0; i < micro_kernel.group; ++i) {
          Value *a = term(row, i, micro_kernel.row), *b = term(panel, i, micro_kernel.panel);
          sum = micro_kernel.sum.is_float() ? at.CreateFAdd(sum, at.CreateFMul(a, b))
                                            : at.CreateAdd(sum, at.CreateMul(a, b));
        }
        at.CreateStore(sum, place);
      });
    });
    return sums;
  }

private:
  void each_row(Value *rows, const std::function<void(Value *offset, Value *row)> &body) {
    code.repeat(code.at.CreateZExt(rows, code.at.getInt64Ty()),
                [&](Value *row) { body(code.at.CreateMul(row, code.number(MatrixTile::bytes)), row); });
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
};

/// The arguments of a function, and of its pieces: what a call is given (matrix_tile.h), with rows in the place of
/// `height`.
struct Call {
  Value *sums, *sums_stride, *rows, *rows_stride, *panel, *panel_stride, *half, *height, *groups, *ahead, *lines;
  explicit Call(llvm::Function *f)
      : sums(f->getArg(0)), sums_stride(f->getArg(1)), rows(f->getArg(2)), rows_stride(f->getArg(3)),
        panel(f->getArg(4)), panel_stride(f->getArg(5)), half(f->getArg(6)), height(f->getArg(7)), groups(f->getArg(8)),
        ahead(f->getArg(9)), lines(f->getArg(10)) {}
};

class Writer {
public:
  Writer(llvm::Module &module, const MicroKernel &micro_kernel, bool has_unit)
      : module_(module), micro_kernel_(micro_kernel), has_unit_(has_unit) {}

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
    Value *steps = at.CreateUDiv(at.CreateZExt(call.groups, at.getInt64Ty()), code.number(MatrixTile::groups));
    Value *asked =
        at.CreateMul(at.CreateMul(steps, at.CreateZExt(call.lines, at.getInt64Ty())), code.number(MatrixTile::bytes));
    auto invoke = [&](llvm::Function *piece, Value *skipped, Value *pieces, Value *last) {
      at.CreateCall(piece,
                    {code.address(call.sums, at.CreateMul(skipped, call.sums_stride)), call.sums_stride,
                     code.address(call.rows, at.CreateMul(skipped, call.rows_stride)), call.rows_stride, call.panel,
                     call.panel_stride, call.half, at.CreateTrunc(last, at.getInt16Ty()), call.groups,
                     code.address(call.ahead, at.CreateMul(at.CreateUDiv(skipped, twice), asked)), call.lines, pieces});
    };
    auto where = [&](Value *condition, const std::function<void()> &then) {
      llvm::BasicBlock *yes = code.block(), *after = code.block();
      at.CreateCondBr(condition, yes, after);
      at.SetInsertPoint(yes);
      then();
      at.CreateBr(after);
      at.SetInsertPoint(after);
    };
    Value *skipped = at.CreateMul(whole, twice), *many = at.CreateICmpUGT(left, rows);
    where(at.CreateICmpUGT(whole, code.number(0)), [&] { invoke(two, code.number(0), whole, rows); });
    where(many, [&] { invoke(two, skipped, code.number(1), at.CreateSub(left, rows)); });
    where(at.CreateAnd(at.CreateNot(many), at.CreateICmpUGT(left, code.number(0))),
          [&] { invoke(one, skipped, code.number(1), left); });
    at.CreateRet(at.getInt32(0));
    function->setLinkage(llvm::GlobalValue::InternalLinkage);
  }

private:
  /// So many pieces of `tiles` tiles of rows each, the last of them of `height` rows.
  llvm::Function *piece(int tiles) {
    llvm::LLVMContext &context = module_.getContext();
    llvm::Type *pointer = llvm::PointerType::get(context, 0), *i64 = llvm::Type::getInt64Ty(context);
    auto *type =
        llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                {pointer, i64, pointer, i64, pointer, i64, i64, llvm::Type::getInt16Ty(context),
                                 llvm::Type::getInt32Ty(context), pointer, llvm::Type::getInt32Ty(context), i64},
                                false);
    auto *function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage,
                                            function_of(micro_kernel_) + "_by_" + std::to_string(tiles), module_);
    function->addFnAttr(llvm::Attribute::NoInline); // a configuration holds for a function
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
    Value *pieces = code.function->getArg(11), *full = at.getInt16(uint16_t(micro_kernel_.rows));
    Value *groups = at.CreateZExt(call.groups, at.getInt64Ty()), *per_step = code.number(MatrixTile::groups),
          *step_bytes = code.number(MatrixTile::bytes), *copied_row = code.number(2 * MatrixTile::bytes);
    Value *zero = code.number(0), *second = code.number(MatrixTile::bytes); // places of the two tiles side by side
    Value *steps = at.CreateUDiv(groups, per_step), *left = at.CreateURem(groups, per_step);
    Value *lines = at.CreateZExt(call.lines, at.getInt64Ty()), *line = code.number(MatrixTile::bytes);
    auto height = [&](int tile) { return tile + 1 == tiles ? call.height : full; };
    auto below = [&](Value *base, int tile, Value *stride) {
      return code.address(base, at.CreateMul(code.number(tile * micro_kernel_.rows), stride));
    };
    // What is left of the panel lies on the stack, zeros behind it, and so does what is left of rows.
    Value *panel_left = code.memory(columns * 2 * MatrixTile::bytes), *rows_left = code.memory(2 * columns * 64);
    Value *some_left = at.CreateZExt(at.CreateICmpUGT(left, code.number(0)), at.getInt64Ty());
    Value *panel_end = code.address(call.panel, at.CreateMul(at.CreateMul(steps, per_step), call.panel_stride));
    code.repeat(some_left, [&](Value *) {
      code.repeat(code.number(columns), [&](Value *group) {
        Value *to = at.CreateMul(group, copied_row), *from = at.CreateMul(group, call.panel_stride);
        Value *mask = at.CreateVectorSplat(columns, at.CreateICmpULT(group, left));
        for (auto [there, here] : {std::pair(zero, zero), std::pair(second, call.half)})
          copy(code, code.address(panel_left, at.CreateAdd(to, there)),
               code.address(panel_end, at.CreateAdd(from, here)), mask);
      });
    });
    code.repeat(pieces, [&](Value *number) {
      Value *first = at.CreateMul(number, code.number(tiles * micro_kernel_.rows));
      Value *rows = code.address(call.rows, at.CreateMul(first, call.rows_stride));
      Value *to = code.address(call.sums, at.CreateMul(first, call.sums_stride));
      Value *rows_end = code.address(rows, at.CreateMul(steps, step_bytes));
      code.repeat(some_left, [&](Value *) {
        llvm::SmallVector<llvm::Constant *> lanes;
        for (int i = 0; i < columns; ++i)
          lanes.push_back(at.getInt64(uint64_t(i)));
        Value *mask = at.CreateICmpULT(llvm::ConstantVector::get(lanes), at.CreateVectorSplat(columns, left));
        Value *count =
            at.CreateAdd(at.CreateZExt(call.height, at.getInt64Ty()), code.number((tiles - 1) * micro_kernel_.rows));
        code.repeat(count, [&](Value *row) {
          copy(code, code.address(rows_left, at.CreateMul(row, step_bytes)),
               code.address(rows_end, at.CreateMul(row, call.rows_stride)), mask);
        });
      });
      Code::Values sums;
      for (int i = 0; i < 2 * tiles; ++i) // separate ones: LLVM would copy a tile through memory
        sums.push_back(unit.zero(height(i / 2)));
      // Rows lie far apart and take their time, so the panel's tiles are loaded between them (on an Emerald Rapids
      // 1.2 times as fast as after them).
      auto multiply = [&](Value *left, Value *stride, Value *right, Value *panel_stride, Value *half,
                          Code::Values sums) {
        Code::Values rows, panels;
        rows.push_back(unit.load(height(0), left, stride));
        for (Value *place : {zero, half})
          panels.push_back(unit.load(full, code.address(right, place), panel_stride));
        if (tiles == 2)
          rows.push_back(unit.load(height(1), below(left, 1, stride), stride));
        for (int i = 0; i < 2 * tiles; ++i)
          sums[i] = unit.multiply(height(i / 2), sums[i], rows[i / 2], panels[i % 2]);
        return sums;
      };
      sums = code.repeat(steps, sums, [&](Value *step, Code::Values sums) {
        Value *asked = at.CreateMul(at.CreateAdd(at.CreateMul(number, steps), step), lines); // before this step
        Value *ahead = code.address(call.ahead, at.CreateMul(asked, line));
        code.repeat(lines, [&](Value *i) {
          at.CreateIntrinsic(llvm::Intrinsic::prefetch, {ahead->getType()},
                             {code.address(ahead, at.CreateMul(i, line)), at.getInt32(contraction::reading),
                              at.getInt32(contraction::second_cache), at.getInt32(contraction::data)});
        });
        return multiply(code.address(rows, at.CreateMul(step, step_bytes)), call.rows_stride,
                        code.address(call.panel, at.CreateMul(at.CreateMul(step, per_step), call.panel_stride)),
                        call.panel_stride, call.half, sums);
      });
      sums = code.repeat(some_left, sums, [&](Value *, Code::Values sums) {
        return multiply(rows_left, step_bytes, panel_left, copied_row, second, sums);
      });
      for (int i = 0; i < 2 * tiles; ++i)
        unit.store(height(i / 2),
                   code.address(below(to, i / 2, call.sums_stride), code.number(i % 2 * MatrixTile::bytes)),
                   call.sums_stride, sums[i]);
    });
    at.CreateRetVoid();
  }

  /// A row of a tile, zeros where the mask says so.
  static void copy(Code &code, Value *to, Value *from, Value *mask) {
    Value *row = code.at.CreateMaskedLoad(row_type(code), from, llvm::Align(1), mask,
                                          llvm::Constant::getNullValue(row_type(code)));
    code.at.CreateStore(row, to);
  }

  llvm::Module &module_;
  const MicroKernel &micro_kernel_;
  bool has_unit_;
};

} // namespace

void define_matrix_tiles(llvm::Module &module, uint32_t cpu_features) {
  for (const MicroKernel &micro_kernel : micro_kernels())
    if (llvm::Function *called = micro_kernel.takes_tiles() ? module.getFunction(function_of(micro_kernel)) : nullptr;
        called && called->isDeclaration())
      Writer(module, micro_kernel, (micro_kernel.needs & ~cpu_features) == 0).write(called);
}

} // namespace heddle
