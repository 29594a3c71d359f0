#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <optional>

namespace slipstream {

/// Takes Ctrl-C while it lives: the first one is counted, for what runs to end in good order; each
/// further one goes to whoever had it before. On Python's main thread alone, where they may nest.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Since the outermost one was made; 0 where there is none.
  static int count();
  /// Whether none lives.
  static bool is_free();
};

/// A Ctrl-C that has not been raised when it is made, or comes while it lives, goes to whoever had
/// it before when it ends: for what is short and must not be cut off. The second one is not held
/// back. Does nothing on other threads than Python's main one. Needs Python's lock.
class LateInterrupts {
 public:
  LateInterrupts();
  ~LateInterrupts();
  LateInterrupts(const LateInterrupts&) = delete;
  LateInterrupts& operator=(const LateInterrupts&) = delete;

 private:
  std::optional<Interrupts> taken_;
  bool is_due_ = false;
};

/// What Python's handlers of signals raise while other threads run the lanes of a run, which is to
/// end for it.
class SignalHandlers {
 public:
  /// Calls the handlers of what has come. On Python's main thread; elsewhere it does nothing.
  /// Without Python's lock.
  void poll() noexcept;
  /// Any thread may ask.
  bool has_raised() const { return has_raised_; }
  /// Throws what was raised, if anything was. By the thread that looks, with Python's lock.
  void rethrow() const;

 private:
  std::exception_ptr raised_;
  std::atomic<bool> has_raised_ = false;
};

/// Asks Python's handlers of signals now and then while something takes long without Python's lock.
class SignalPoll {
 public:
  /// To call often. Throws what a handler raises. On Python's main thread; elsewhere it does
  /// nothing. Without Python's lock.
  void operator()();

 private:
  std::chrono::steady_clock::time_point next_ = {};
};

}  // namespace slipstream
