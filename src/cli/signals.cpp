#include "cli/signals.h"

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "cli/verbs.h"

namespace slipstream {
namespace {

std::atomic<int> interrupts = 0;
// A signal handler must not use a lock: the interrupted thread may hold it.
static_assert(std::atomic<int>::is_always_lock_free);

void on_interrupt(int) {
  if (interrupts.fetch_add(1) > 0) std::_Exit(kInterrupted);
}

// A terminal that is closed may send several SIGHUPs, so a second one does not end the program.
void on_hangup(int) {
  int none = 0;
  interrupts.compare_exchange_strong(none, 1);
}

}  // namespace

void handle_signals() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  if (std::signal(SIGHUP, on_hangup) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // under nohup
  // A write to a closed pipe, or beyond the limit of a file's size, then fails with an error
  // instead.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool was_interrupted() { return interrupts.load() > 0; }

}  // namespace slipstream
