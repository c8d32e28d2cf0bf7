// The `heddle` command: its options, and which room each of its words calls. Everything that can go wrong for a
// user ends here as one message on stderr and an exit status.
#pragma once

namespace heddle {

/// 0: done. 1: the user's model, files or data are at fault; one message says how. 2: wrong usage.
int run_driver(int argc, char **argv);

} // namespace heddle
