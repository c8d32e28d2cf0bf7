# Run at each build: cmake -DSOURCE=… -DOUTPUT=… -P commit.cmake writes the header that has the commit which is built,
# and leaves it alone where nothing changed.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel
                OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(failed OR NOT top STREQUAL SOURCE) # an archive, perhaps inside of another project
  set(commit "")
endif()
file(WRITE ${OUTPUT}.new "// Generated: the commit that was built.
#pragma once
namespace heddle {
inline constexpr const char *commit = \"${commit}\";
}
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
