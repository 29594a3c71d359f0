#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <optional>

namespace slipstream {

/// Handles Ctrl-C during its lifetime. The first SIGINT is only counted, so that the current work
/// can end in an orderly way. Each further one is passed to the previous handler. Use it only on
/// Python's main thread. Objects may be nested.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Number of SIGINTs since the outermost object was created; 0 if there is no object.
  static int count();
  /// Whether no object exists.
  static bool is_free();
};

/// Delays a Ctrl-C until the end of its lifetime, and then passes it to the previous handler. Use
/// it for short work that must not be interrupted. A Ctrl-C that Python has not yet raised is
/// delayed, too. The second one is not delayed. Has no effect on threads other than Python's main
/// thread. Needs the GIL.
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

/// Calls Python's signal handlers while other threads run the lanes of a run, and stores what they
/// raise, so that the run ends.
class SignalHandlers {
 public:
  /// Calls the handlers of pending signals. Has no effect on threads other than Python's main
  /// thread. Call it without the GIL.
  void poll() noexcept;
  /// Whether a handler has raised an exception. Any thread may call this.
  bool has_raised() const { return has_raised_; }
  /// Throws the stored exception, if any. Called by the thread that calls poll(), with the GIL.
  void rethrow() const;

 private:
  std::exception_ptr raised_;
  std::atomic<bool> has_raised_ = false;
};

/// Calls Python's signal handlers from time to time during long work without the GIL.
class SignalPoll {
 public:
  /// Call this often, without the GIL. Throws what a handler raises. Has no effect on threads other
  /// than Python's main thread.
  void operator()();

 private:
  std::chrono::steady_clock::time_point next_ = {};
};

}  // namespace slipstream
