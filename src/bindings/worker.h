#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "bindings/worker_pool.h"

namespace slipstream {

/// A worker process of a pool. One thread at a time uses it.
class WorkerPool::Worker {
 public:
  Worker(int socket, int memory, unsigned number, int process);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Waits until it has answered interrupted requests. Returns false if the process has ended.
  bool catch_up(const Wakes& wakes, const std::function<void()>& on_wait);
  /// Sends a request and returns the answer, as WorkerPool::ask() does. The wait ends when one of
  /// the descriptors `wakes` becomes readable. REQUIRES: !is_behind()
  WorkerAnswer ask(const WorkerRequest& request, const ConstArray* input, const Wakes& wakes,
                   const std::function<void()>& on_wait);
  /// Whether the process still works on a request that no thread waits for.
  bool is_behind() const { return sent_ != answered_; }
  /// Whether there is something to receive, which may also be the end of the process.
  bool has_answered() const;
  /// How the process ended; "" if it has not.
  const std::string& end() const { return end_; }
  bool is_lost() const { return !end_.empty(); }
  unsigned number() const { return number_; }
  int socket() const { return socket_; }
  int memory() const { return memory_; }

 private:
  struct Head;

  void map(std::size_t bytes);
  void reserve(std::size_t bytes);
  void send(const WorkerRequest& request, const ConstArray* input);
  /// Waits for an answer, or until one of `wakes` becomes readable.
  void await_answer(const Wakes& wakes, const std::function<void()>& on_wait) const;
  void receive(std::span<std::byte> to);
  WorkerAnswer receive_answer(Head& head, const Wakes& wakes, const std::function<void()>& on_wait);
  ConstArray make_array(std::span<const std::uint64_t> words) const;
  [[noreturn]] void throw_ended();
  std::string end_of_process() const;

  const int socket_, memory_;
  const unsigned number_;
  const int process_;
  std::byte* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::uint64_t sent_ = 0, answered_ = 0;
  std::uint64_t sample_ = 0;  ///< sample of the last request
  std::string end_;
};

}  // namespace slipstream
