// What ends the process from outside, or from within without a return.
#pragma once

#include <atomic>

namespace heddle {

/// From here on unfinished output is removed whatever ends the process:
/// - an interrupt (Ctrl-C, a closed terminal, `kill`): status 128 + its number;
/// - a mapped file that another program shortens, or whose disk is full or fails (SIGBUS): one message, status 1;
/// - an allocation that fails: one message, status 1;
/// - a crash: a message, then the signal's own end;
/// - exit() called by a library: status 1.
/// A write over the file-size limit, or to a pipe that nobody reads, becomes an ordinary error of that write.
void take_signals();

/// The first Ctrl-C from here on only sets `asked`: a command that finishes what it has begun. Null: as before.
void finish_on_interrupt(std::atomic<bool> *asked);

/// The command has returned: what follows is an ordinary end.
void end_in_order();

} // namespace heddle
