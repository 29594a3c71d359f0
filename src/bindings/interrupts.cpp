#include "bindings/interrupts.h"

#include <Python.h>
#include <signal.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <cstdlib>

#include "bindings/gil.h"

namespace slipstream {
namespace {

constexpr int kExitCode = 130;
constexpr auto kPollInterval = std::chrono::milliseconds(50);

std::atomic<int> interrupts = 0;
// A signal handler must not use a lock: the interrupted thread may hold it.
static_assert(std::atomic<int>::is_always_lock_free);
int depth = 0;  // only the main thread uses it
struct sigaction before;

void on_interrupt(int signal) {
  if (interrupts.fetch_add(1) == 0) return;
  // Such a handler takes two more arguments, which this one does not have.
  if ((before.sa_flags & SA_SIGINFO) != 0) return;
  // The default action ends the process. _Exit() runs no exit handlers, which are not safe in a
  // signal handler.
  if (before.sa_handler == SIG_DFL) std::_Exit(kExitCode);
  before.sa_handler(signal);
}

}  // namespace

Interrupts::Interrupts() {
  if (depth++ > 0) return;
  interrupts = 0;
  struct sigaction own = {};
  own.sa_handler = on_interrupt;
  // The first Ctrl-C lets the current work end in an orderly way, so it must not make a system call
  // fail.
  own.sa_flags = SA_RESTART;
  sigaction(SIGINT, &own, &before);
  // A program that was started with SIGINT ignored, for example in the background of a script,
  // keeps ignoring it.
  if (before.sa_handler == SIG_IGN) sigaction(SIGINT, &before, nullptr);
}

Interrupts::~Interrupts() {
  if (--depth > 0) return;
  sigaction(SIGINT, &before, nullptr);
  interrupts = 0;
}

int Interrupts::count() { return interrupts.load(); }

bool Interrupts::is_free() { return depth == 0; }

LateInterrupts::LateInterrupts() {
  // Python handles Ctrl-C only on the main thread, whose thread id is the id of the process.
  if (gettid() != getpid()) return;
  taken_.emplace();
  is_due_ = PyOS_InterruptOccurred() != 0;
}

LateInterrupts::~LateInterrupts() {
  if (!taken_) return;
  const bool came = Interrupts::count() > 0;
  taken_.reset();
  if (is_due_) PyErr_SetInterrupt();
  if (came && Interrupts::is_free()) raise(SIGINT);
}

void SignalHandlers::poll() noexcept {
  if (has_raised_) return;
  const GilAcquire locked;
  if (PyErr_CheckSignals() == 0) return;
  raised_ = std::make_exception_ptr(pybind11::error_already_set());
  has_raised_ = true;
}

void SignalHandlers::rethrow() const {
  if (raised_) std::rethrow_exception(raised_);
}

void SignalPoll::operator()() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kPollInterval;
  const GilAcquire locked;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace slipstream
