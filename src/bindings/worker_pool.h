#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

/// What a worker process is asked to do; python/slipstream/_workers.py has the same numbers.
enum class WorkerTask : std::uint64_t {
  describe,  ///< reads a sample and says how its values lie in it
  read,      ///< reads a sample
  transform  ///< does a step in Python to the image that it is given
};

struct WorkerRequest {
  WorkerTask task = WorkerTask::read;
  std::uint64_t sample = 0;
  std::uint64_t step = 0;  ///< which one, of those in Python
  std::uint64_t seed = 0;  ///< of the process's random generators
};

/// What a process answered. It is in the process's memory, so it lives while that is held.
struct WorkerAnswer {
  std::string text;  ///< the form of the sample
  std::vector<ConstArray> fields;
};

/// A process ended, its memory could not grow, or the wait for it was interrupted. No sample is to
/// blame, so none is skipped for it.
class WorkerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Who asks a pool, where its waits can be ended without those of others.
class PoolUser {
 public:
  PoolUser();
  ~PoolUser();
  PoolUser(const PoolUser&) = delete;
  PoolUser& operator=(const PoolUser&) = delete;

  bool has_left() const { return has_left_; }

 private:
  friend class WorkerPool;
  int wake_;  ///< an eventfd, readable once it has left
  std::atomic<bool> has_left_ = false;
};

/// Processes that do one request at a time each. Requests come over a socket, values in memory that
/// is shared with the process and grows with the largest sample. All functions may be called from
/// several threads at once, and need no lock of Python's.
class WorkerPool {
 public:
  using Use = std::function<void(const WorkerAnswer&)>;
  using OnWait = std::function<void()>;

  WorkerPool();
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Adds a process: the parent's end of its socket and a memfd, both of which are the pool's from
  /// here on, its number among the workers and its process id.
  void add(int socket, int memory, unsigned number, int process);
  /// Takes a free process, or waits for one, gives it the request with `input` (nullptr: none),
  /// waits for the answer and calls `use` with it. Throws UnfitSample with what Python raised, with
  /// its traceback, and WorkerLost.
  /// `user`: nullptr, or who asks.
  void ask(const WorkerRequest& request, const ConstArray* input, const Use& use,
           const PoolUser* user = nullptr);
  /// Called some times a second while the thread that sets it waits; may throw. nullptr: none.
  void set_on_wait(OnWait on_wait);
  /// Every wait of `user`, and every later one, throws WorkerLost at once. The processes finish
  /// what they do; their answers are thrown away.
  void interrupt(PoolUser& user);
  /// Processes see the end of their sockets and end. What is asked of them later throws.
  void close();
  /// The numbers of the processes that ended since the last call and, of those that no thread uses
  /// now, of the ones in `unwanted`, and `with_busy` of those that still work on what was
  /// interrupted. None of them is used any more.
  std::vector<unsigned> take_lost(bool with_busy, const std::vector<unsigned>& unwanted = {});
  /// The descriptors that a process made by a fork must not keep.
  std::vector<int> descriptors() const;

 private:
  class Worker;
  class WorkerLease;
  using Wakes = std::array<int, 2>;  ///< descriptors that end a wait; -1: none

  /// Of the calling thread.
  OnWait on_wait() const;
  Worker* take(const PoolUser* user, const OnWait& on_wait);
  std::deque<Worker*>::iterator find_free();
  void return_worker(Worker* worker);

  mutable std::mutex changing_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Worker>> workers_;
  std::deque<Worker*> free_;
  std::vector<Worker*> lost_;  ///< no thread uses them any more
  std::string last_end_;
  std::size_t living_ = 0;
  OnWait on_wait_;
  std::thread::id waiter_;  ///< who set it
  int wake_;                ///< an eventfd, readable once it is closed
  bool is_closed_ = false;
};

}  // namespace slipstream
