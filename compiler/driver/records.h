// `--db`: which records of the tuner a compilation goes by, and what it says of that.
#pragma once

#include "compiler/driver/compile_model.h"

namespace heddle {

/// The database that a search writes: the named one, else the default one, $HEDDLE_DB or heddle/tuning.db in the user's
/// folder for caches. A folder is made for the last of these only.
Result<std::string> database_to_use(const std::string &db);

/// Gives the goals their records: `db` is a file, "none", or empty for the default one, which need not be there. A file
/// that cannot be used is an error where it was named, and a line on stderr where it is the default one. `machine`:
/// whose records count for targets that there are records of it for; others go by those of this CPU, GPUs by none.
Status add_records(std::vector<CompileGoal> &goals, const std::string &db, const std::string &machine);

/// "schedules: 17 of 22 kernels as measured on AMD EPYC …"; empty where no schedule was measured. For a GPU without a
/// machine: of which ones there are records.
std::string records_line(mlir::ModuleOp module, const CompileGoal &goal);

} // namespace heddle
