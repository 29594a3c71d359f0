#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace slipstream {

/// A point in a lane's work: a CUDA event, or a time on the host. A lane makes it and records it as
/// often as wanted. Each recording moves it.
class Mark {
 public:
  virtual ~Mark() = default;

  /// Whether the work before the last recording has finished. REQUIRES: recorded
  virtual bool reached() const = 0;
  /// Blocks the calling host thread until reached(). REQUIRES: recorded
  virtual void synchronize() const = 0;
  /// Seconds from `earlier` to this point, on the clock of the device that did the work.
  /// REQUIRES: both are reached and were made by lanes of one device
  virtual double seconds_after(const Mark& earlier) const = 0;
};

/// A place where work is enqueued in order: a CUDA stream, or a host thread.
class Lane {
 public:
  explicit Lane(std::string name) : name_(std::move(name)) {}
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& name() const { return name_; }

  /// To be called first by a thread that will enqueue on lanes of this one's device alone.
  virtual void begin_thread() {}

  /// Makes a mark that this lane can record. It is not recorded yet.
  virtual std::unique_ptr<Mark> make_mark() = 0;
  /// The same without a time, which costs a device less: seconds_after() is not for it.
  virtual std::unique_ptr<Mark> make_untimed_mark() { return make_mark(); }

  /// Moves `mark`, which this lane made, behind all work enqueued on this lane so far. Does not
  /// block.
  virtual void record(Mark& mark) = 0;

  /// Lets work that is enqueued on this lane after the call run after `mark`'s last recording. A
  /// stream waits for a stream without blocking the host. Where host work waits for a stream, the
  /// calling thread blocks. A wait for a host's mark returns at once, for what it marks was done
  /// when it was recorded.
  /// REQUIRES: `mark` is recorded, and not recorded again before this call returns
  virtual void wait(const Mark& mark) = 0;

  /// Blocks the host until all work enqueued on this lane has finished. Throws DeviceLost when
  /// that work can never finish.
  virtual void synchronize() = 0;

 private:
  std::string name_;
};

/// Which host threads enqueue the lanes' work.
enum class Driver : std::uint8_t {
  interleaved,  ///< one thread for all lanes, which advances whatever is ready, later lanes first
  threaded      ///< one thread for each lane; only then do lanes on the host overlap
};

/// A lane whose work is done by the calling host thread: the work is over when the call returns.
class HostLane final : public Lane {
 public:
  using Lane::Lane;
  std::unique_ptr<Mark> make_mark() override;
  void record(Mark& mark) override;
  void wait(const Mark& mark) override;
  void synchronize() override {}
};

}  // namespace slipstream
