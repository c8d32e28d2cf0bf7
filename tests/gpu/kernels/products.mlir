// Kernels that test_gpu lowers by MLIR's gpu-lower-to-nvvm-pipeline and runs on the emulated GPU (mlir_kernels.cc):
// products on tensor cores through nvgpu (cp.async, ldmatrix, mma.sync) and through wmma, and sums of rows by shuffles.
module attributes {gpu.container_module} {
  gpu.module @kernels {
    // C[64, 64] = A[64, 64] B[64, 64]^T. A block of two warps has 32 rows and 8 columns, a warp 16 x 8; along k in
    // steps of 16, copied to shared memory by cp.async.
    gpu.func @product(%A: memref<64x64xf16>, %B: memref<64x64xf16>, %C: memref<64x64xf32>)
        workgroup(%sA: memref<32x24xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64},
                  %sB: memref<8x24xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
        kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      %c64 = arith.constant 64 : index
      %tid = gpu.thread_id x
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %row0 = arith.muli %by, %c32 : index
      %col0 = arith.muli %bx, %c8 : index
      %lane = arith.remui %tid, %c32 : index
      %warp = arith.divui %tid, %c32 : index
      %r = arith.divui %tid, %c2 : index
      %odd = arith.remui %tid, %c2 : index
      %half = arith.muli %odd, %c8 : index
      %copiesB = arith.cmpi ult, %tid, %c16 : index
      %zero = arith.constant dense<0.0> : vector<2x2xf32>
      %sum = scf.for %k = %c0 to %c64 step %c16 iter_args(%acc = %zero) -> (vector<2x2xf32>) {
        %kh = arith.addi %k, %half : index
        %ra = arith.addi %row0, %r : index
        %t0 = nvgpu.device_async_copy %A[%ra, %kh], %sA[%r, %half], 8 {bypassL1} : memref<64x64xf16> to memref<32x24xf16, #gpu.address_space<workgroup>>
        scf.if %copiesB {
          %rb = arith.addi %col0, %r : index
          %t1 = nvgpu.device_async_copy %B[%rb, %kh], %sB[%r, %half], 8 {bypassL1} : memref<64x64xf16> to memref<8x24xf16, #gpu.address_space<workgroup>>
        }
        %group = nvgpu.device_async_create_group
        nvgpu.device_async_wait %group
        gpu.barrier
        %w16 = arith.muli %warp, %c16 : index
        %l16 = arith.remui %lane, %c16 : index
        %lh = arith.divui %lane, %c16 : index
        %arow = arith.addi %w16, %l16 : index
        %acol = arith.muli %lh, %c8 : index
        %a = nvgpu.ldmatrix %sA[%arow, %acol] {numTiles = 4 : i32, transpose = false} : memref<32x24xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %brow = arith.remui %lane, %c8 : index
        %bh = arith.divui %lane, %c8 : index
        %bh2 = arith.remui %bh, %c2 : index
        %bcol = arith.muli %bh2, %c8 : index
        %b = nvgpu.ldmatrix %sB[%brow, %bcol] {numTiles = 2 : i32, transpose = false} : memref<8x24xf16, #gpu.address_space<workgroup>> -> vector<2x2xf16>
        %d = nvgpu.mma.sync(%a, %b, %acc) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        gpu.barrier
        scf.yield %d : vector<2x2xf32>
      }
      %g = arith.divui %lane, %c4 : index
      %t = arith.remui %lane, %c4 : index
      %t2 = arith.muli %t, %c2 : index
      %col = arith.addi %col0, %t2 : index
      %wrow = arith.muli %warp, %c16 : index
      %wr0 = arith.addi %row0, %wrow : index
      %row = arith.addi %wr0, %g : index
      %row8 = arith.addi %row, %c8 : index
      %col1 = arith.addi %col, %c1 : index
      %v00 = vector.extract %sum[0, 0] : f32 from vector<2x2xf32>
      %v01 = vector.extract %sum[0, 1] : f32 from vector<2x2xf32>
      %v10 = vector.extract %sum[1, 0] : f32 from vector<2x2xf32>
      %v11 = vector.extract %sum[1, 1] : f32 from vector<2x2xf32>
      memref.store %v00, %C[%row, %col] : memref<64x64xf32>
      memref.store %v01, %C[%row, %col1] : memref<64x64xf32>
      memref.store %v10, %C[%row8, %col] : memref<64x64xf32>
      memref.store %v11, %C[%row8, %col1] : memref<64x64xf32>
      gpu.return
    }

    // C[64, 64] = A[64, 64] B[64, 64]: a warp for each tile of 16 x 16.
    gpu.func @wmma_product(%A: memref<64x64xf16>, %B: memref<64x64xf16>, %C: memref<64x64xf32>) kernel
        attributes {known_block_size = array<i32: 32, 1, 1>} {
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      %c48 = arith.constant 48 : index
      %c0 = arith.constant 0 : index
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %row = arith.muli %by, %c16 : index
      %col = arith.muli %bx, %c16 : index
      %z = arith.constant 0.0 : f32
      %s0 = gpu.subgroup_mma_constant_matrix %z : !gpu.mma_matrix<16x16xf32, "COp">
      %a0 = gpu.subgroup_mma_load_matrix %A[%row, %c0] {leadDimension = 64 : index} : memref<64x64xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
      %b0 = gpu.subgroup_mma_load_matrix %B[%c0, %col] {leadDimension = 64 : index} : memref<64x64xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
      %s1 = gpu.subgroup_mma_compute %a0, %b0, %s0 : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
      %a1 = gpu.subgroup_mma_load_matrix %A[%row, %c16] {leadDimension = 64 : index} : memref<64x64xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
      %b1 = gpu.subgroup_mma_load_matrix %B[%c16, %col] {leadDimension = 64 : index} : memref<64x64xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
      %s2 = gpu.subgroup_mma_compute %a1, %b1, %s1 : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
      %a2 = gpu.subgroup_mma_load_matrix %A[%row, %c32] {leadDimension = 64 : index} : memref<64x64xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
      %b2 = gpu.subgroup_mma_load_matrix %B[%c32, %col] {leadDimension = 64 : index} : memref<64x64xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
      %s3 = gpu.subgroup_mma_compute %a2, %b2, %s2 : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
      %a3 = gpu.subgroup_mma_load_matrix %A[%row, %c48] {leadDimension = 64 : index} : memref<64x64xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
      %b3 = gpu.subgroup_mma_load_matrix %B[%c48, %col] {leadDimension = 64 : index} : memref<64x64xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
      %s4 = gpu.subgroup_mma_compute %a3, %b3, %s3 : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
      gpu.subgroup_mma_store_matrix %s4, %C[%row, %col] {leadDimension = 64 : index} : !gpu.mma_matrix<16x16xf32, "COp">, memref<64x64xf32>
      gpu.return
    }

    // s[i] = sum[j](x[i, j]), a warp for each row; total += s[i].
    gpu.func @row_sums(%x: memref<?x?xf32>, %s: memref<?xf32>, %total: memref<1xf32>) kernel
        attributes {known_block_size = array<i32: 32, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c32 = arith.constant 32 : index
      %w = arith.constant 32 : i32
      %z = arith.constant 0.0 : f32
      %i = gpu.block_id x
      %lane = gpu.thread_id x
      %n = memref.dim %x, %c1 : memref<?x?xf32>
      %mine = scf.for %j = %lane to %n step %c32 iter_args(%acc = %z) -> (f32) {
        %v = memref.load %x[%i, %j] : memref<?x?xf32>
        %a = arith.addf %acc, %v : f32
        scf.yield %a : f32
      }
      %o1 = arith.constant 1 : i32
      %o2 = arith.constant 2 : i32
      %o4 = arith.constant 4 : i32
      %o8 = arith.constant 8 : i32
      %o16 = arith.constant 16 : i32
      %x1, %p1 = gpu.shuffle xor %mine, %o1, %w : f32
      %s1 = arith.addf %mine, %x1 : f32
      %x2, %p2 = gpu.shuffle xor %s1, %o2, %w : f32
      %s2 = arith.addf %s1, %x2 : f32
      %x4, %p4 = gpu.shuffle xor %s2, %o4, %w : f32
      %s4 = arith.addf %s2, %x4 : f32
      %x8, %p8 = gpu.shuffle xor %s4, %o8, %w : f32
      %s8 = arith.addf %s4, %x8 : f32
      %x16, %p16 = gpu.shuffle xor %s8, %o16, %w : f32
      %s16 = arith.addf %s8, %x16 : f32
      %first = arith.cmpi eq, %lane, %c0 : index
      scf.if %first {
        memref.store %s16, %s[%i] : memref<?xf32>
        %old = memref.atomic_rmw addf %s16, %total[%c0] : (f32, memref<1xf32>) -> f32
      }
      gpu.return
    }
  }
}
