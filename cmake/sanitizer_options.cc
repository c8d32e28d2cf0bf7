// Part of every program of a build with sanitizers: what has to be said to them, so that a plain ctest works. LLVM,
// MLIR and Halide are not instrumented; containers that they fill and our code reads look overflowed
// (detect_container_overflow), and what they keep until the end of the process looks leaked.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
extern "C" __attribute__((visibility("default"), used)) const char *__asan_default_options() {
  return "detect_container_overflow=0:detect_stack_use_after_return=1:strict_string_checks=1";
}
extern "C" __attribute__((visibility("default"), used)) const char *__lsan_default_suppressions() {
  return "leak:libLLVM\nleak:libMLIR\nleak:libHalide\nleak:libclang\n";
}
#endif
#endif
#if defined(__clang__)
extern "C" __attribute__((visibility("default"), used)) const char *__ubsan_default_options() {
  return "print_stacktrace=1:halt_on_error=1";
}
#endif
