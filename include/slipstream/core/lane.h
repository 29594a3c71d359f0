#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace slipstream {

/// A point in a lane's work: a CUDA event, or a time on the host. The lane that creates a mark may
/// record it repeatedly; each recording moves it to the current end of the lane's work. Any thread
/// may call reached() and synchronize() while no thread records the mark.
class Mark {
 public:
  virtual ~Mark() = default;

  /// Returns true if the work before the last recording has finished. Does not block.
  /// REQUIRES: recorded
  virtual bool reached() const = 0;
  /// Blocks the calling host thread until reached() is true.
  /// REQUIRES: recorded
  virtual void synchronize() const = 0;
  /// Returns the seconds from `earlier` to this mark, measured by the clock of the device that did
  /// the work.
  /// REQUIRES: both are reached and were made by lanes of one device
  virtual double seconds_after(const Mark& earlier) const = 0;
};

/// A queue whose work runs in order: a CUDA stream, or a host thread. One thread at a time enqueues
/// on a lane.
class Lane {
 public:
  explicit Lane(std::string name) : name_(std::move(name)) {}
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& name() const { return name_; }

  /// A thread that will enqueue only on lanes of this lane's device calls this once before anything
  /// else.
  virtual void begin_thread() {}

  /// Creates a mark that this lane can record. It is not recorded yet.
  virtual std::unique_ptr<Mark> make_mark() = 0;
  /// Creates a mark without a timestamp, which is cheaper on a device. seconds_after() must not be
  /// called on it.
  virtual std::unique_ptr<Mark> make_untimed_mark() { return make_mark(); }

  /// Records `mark`, which this lane created, after all work enqueued on this lane so far. Does not
  /// block.
  virtual void record(Mark& mark) = 0;

  /// Makes all work enqueued on this lane after the call wait for `mark`'s last recording. A stream
  /// waits for another stream without blocking the host. If host work waits for a stream, the
  /// calling thread blocks. A wait for a host lane's mark returns at once, because the marked work
  /// was finished when the mark was recorded.
  /// REQUIRES: `mark` is recorded, and not recorded again before this call returns
  virtual void wait(const Mark& mark) = 0;

  /// Blocks the host until all work enqueued on this lane has finished. Throws DeviceLost if that
  /// work can never finish.
  virtual void synchronize() = 0;

 private:
  std::string name_;
};

/// Selects the host threads that enqueue the lanes' work.
enum class Driver : std::uint8_t {
  interleaved,  ///< one thread for all lanes; it advances whichever lane is ready, later lanes
                ///< first
  threaded      ///< one thread per lane; host lanes overlap only with this driver
};

/// A lane whose work runs on the calling host thread: the work has finished when the call returns.
class HostLane final : public Lane {
 public:
  using Lane::Lane;
  std::unique_ptr<Mark> make_mark() override;
  void record(Mark& mark) override;
  void wait(const Mark& mark) override;
  void synchronize() override {}
};

}  // namespace slipstream
