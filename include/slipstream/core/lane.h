#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace slipstream {

/// A point in a lane's work. Made by a lane, recorded by that lane as often as wanted: each
/// recording moves it.
class Mark {
 public:
  virtual ~Mark() = default;

  /// Whether the work before the last recording has finished. REQUIRES: recorded
  virtual bool reached() const = 0;
  /// Blocks the calling host thread until reached(). REQUIRES: recorded
  virtual void synchronize() const = 0;
  /// Seconds from `earlier` to this point, on the clock of the device that did the work.
  /// REQUIRES: both reached, both made by lanes of one device
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

  virtual std::unique_ptr<Mark> make_mark() = 0;

  /// Moves `mark` (made by this lane) behind all work enqueued on this lane so far.
  virtual void record(Mark& mark) = 0;

  /// Work enqueued on this lane from now on runs after `mark`'s last recording. A stream waits for
  /// a stream without blocking the host; where host work waits for a stream, the calling thread
  /// blocks; host marks need no wait, for what they mark has been done when they were recorded.
  /// REQUIRES: recorded, and not recorded again before this call returns
  virtual void wait(const Mark& mark) = 0;

  /// Blocks the host until all work enqueued on this lane has finished. Throws DeviceLost when
  /// that work can never finish.
  virtual void synchronize() = 0;

 private:
  std::string name_;
};

/// Who calls the lanes. interleaved: one host thread advances whatever is ready, later lanes first.
/// threaded: one host thread a lane; host lanes overlap only then.
enum class Driver : std::uint8_t { interleaved, threaded };

/// A lane whose work is done on the calling host thread: when a function returns, its work is over.
class HostLane final : public Lane {
 public:
  using Lane::Lane;
  std::unique_ptr<Mark> make_mark() override;
  void record(Mark& mark) override;
  void wait(const Mark& mark) override;
  void synchronize() override {}
};

}  // namespace slipstream
