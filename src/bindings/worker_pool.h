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

/// The task of a request to a worker process. python/slipstream/_workers.py has the same numbers.
enum class WorkerTask : std::uint64_t {
  describe,  ///< reads a sample and describes its structure
  read,      ///< reads a sample
  transform  ///< applies a step in Python to the image in the request
};

struct WorkerRequest {
  WorkerTask task = WorkerTask::read;
  std::uint64_t sample = 0;
  std::uint64_t step = 0;  ///< index among the steps in Python
  std::uint64_t seed = 0;  ///< seed of the process's random generators
};

/// The answer of a process. It refers to memory shared with the process, so it is valid only while
/// the process is held.
struct WorkerAnswer {
  std::string text;  ///< description of the sample's structure
  std::vector<ConstArray> fields;
};

/// Reports that a process ended, that its memory could not grow, or that the wait for it was
/// interrupted. The sample is not the cause, so it is not skipped.
class WorkerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A user of a pool, whose waits can be ended without ending those of other users.
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

/// Worker processes, each of which executes one request at a time. Requests are sent over a socket.
/// Values are in memory that is shared with the process and grows with the largest sample. All
/// functions may be called by several threads at the same time, without the GIL.
class WorkerPool {
 public:
  using Use = std::function<void(const WorkerAnswer&)>;
  using OnWait = std::function<void()>;

  WorkerPool();
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Adds a process. `socket`: the parent's end of its socket. `memory`: a memfd. The pool owns
  /// both descriptors after this call. `number`: index among the workers. `process`: process id.
  void add(int socket, int memory, unsigned number, int process);
  /// Takes a free process, or waits for one. Sends the request with `input` (nullptr: none), waits
  /// for the answer, and calls `use` with it. Throws UnfitSample with Python's exception and its
  /// traceback, and WorkerLost. `user`: the user of the pool, or nullptr.
  void ask(const WorkerRequest& request, const ConstArray* input, const Use& use,
           const PoolUser* user = nullptr);
  /// Sets a function that is called a few times per second while the calling thread waits. Its
  /// exceptions propagate out of ask(). nullptr: none.
  void set_on_wait(OnWait on_wait);
  /// Makes all present and later waits of `user` throw WorkerLost at once. The processes finish
  /// their requests, and their answers are discarded.
  void interrupt(PoolUser& user);
  /// Closes the sockets, at which the processes end. Later requests throw.
  void close();
  /// Removes processes from the pool and returns their numbers: those that ended since the last
  /// call; those in `unwanted` that no thread uses now; and, if `with_busy`, those that still work
  /// on an interrupted request.
  std::vector<unsigned> take_lost(bool with_busy, const std::vector<unsigned>& unwanted = {});
  /// Returns the descriptors that a forked process must close.
  std::vector<int> descriptors() const;

 private:
  class Worker;
  class WorkerLease;
  using Wakes = std::array<int, 2>;  ///< descriptors that end a wait; -1: none

  /// Returns the function that the calling thread has set.
  OnWait on_wait() const;
  Worker* take(const PoolUser* user, const OnWait& on_wait);
  std::deque<Worker*>::iterator find_free();
  void return_worker(Worker* worker);

  mutable std::mutex changing_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Worker>> workers_;
  std::deque<Worker*> free_;
  std::vector<Worker*> lost_;  ///< ended processes, which no thread uses
  std::string last_end_;
  std::size_t living_ = 0;
  OnWait on_wait_;
  std::thread::id waiter_;  ///< the thread that set it
  int wake_;                ///< an eventfd, readable once it is closed
  bool is_closed_ = false;
};

}  // namespace slipstream
