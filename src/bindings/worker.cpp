#include "bindings/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/plain_message.h"
#include "slipstream/transforms/op.h"

namespace slipstream {
namespace {

constexpr std::size_t kRequestWords = 10;
constexpr std::size_t kFieldWords = 3 + Shape::kMaxRank;
constexpr std::size_t kStep = std::size_t{64} << 10;
constexpr int kWaitMs = 50;
/// Limits of a message. python/slipstream/_worker_process.py has the same numbers.
constexpr std::uint64_t kMostFields = 4096, kMostText = std::uint64_t{1} << 24;

/// Values of an answer's status.
enum : std::uint64_t { kDone, kSampleFailed, kProcessFailed };

std::string memory_problem(std::size_t bytes, int error) {
  return "a sample needs " + std::to_string(bytes) +
         " bytes of memory shared with its worker process (" + errno_message(error) +
         "); use fewer workers, smaller samples, or raise the limit of the container or of file "
         "sizes (ulimit -f)";
}

}  // namespace

struct WorkerPool::Worker::Head {
  std::uint64_t number, status, fields, memory_bytes, text_bytes;
};

WorkerPool::Worker::Worker(int socket, int memory, unsigned number, int process)
    : socket_(socket), memory_(memory), number_(number), process_(process) {}

WorkerPool::Worker::~Worker() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
  ::close(socket_);
  ::close(memory_);
}

void WorkerPool::Worker::map(std::size_t bytes) {
  if (bytes <= mapped_bytes_) return;
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
  if (at == MAP_FAILED) throw WorkerLost(memory_problem(bytes, errno));
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
  mapped_ = static_cast<std::byte*>(at);
  mapped_bytes_ = bytes;
}

void WorkerPool::Worker::reserve(std::size_t bytes) {
  if (bytes <= mapped_bytes_) return;
  const std::size_t whole = (bytes + kStep - 1) / kStep * kStep;
  // Without this, missing memory would later cause a SIGBUS instead of an error.
  if (const int error = posix_fallocate(memory_, 0, static_cast<off_t>(whole)); error != 0)
    throw WorkerLost(memory_problem(bytes, error));
  map(whole);
}

void WorkerPool::Worker::send(const WorkerRequest& request, const ConstArray* input) {
  std::array<std::uint64_t, kRequestWords> words{++sent_, static_cast<std::uint64_t>(request.task),
                                                 request.sample, request.step, request.seed};
  if (input != nullptr) {
    words[6] = static_cast<std::uint64_t>(input->dtype);
    for (std::size_t i = 0; i < 3; ++i) words[7 + i] = static_cast<std::uint64_t>(input->shape[i]);
    std::memcpy(mapped_, input->data, input->bytes());
  }
  words[5] = mapped_bytes_;
  // Without MSG_NOSIGNAL, a worker process that has ended would end this process, too, by SIGPIPE.
  const ssize_t done = ::send(socket_, words.data(), sizeof(words), MSG_NOSIGNAL);
  if (done != static_cast<ssize_t>(sizeof(words))) throw_ended();
}

void WorkerPool::Worker::await_answer(const Wakes& wakes,
                                      const std::function<void()>& on_wait) const {
  std::array<pollfd, 3> polled{
      {{socket_, POLLIN, 0}, {wakes[0], POLLIN, 0}, {wakes[1], POLLIN, 0}}};
  int count = 0;
  // poll() also returns without an answer: after kWaitMs, or after a signal (EINTR).
  while (count <= 0) {
    count = poll(polled.data(), polled.size(), on_wait ? kWaitMs : -1);
    if (on_wait) on_wait();
  }
  if (polled[1].revents != 0 || polled[2].revents != 0)
    throw WorkerLost("the wait for a worker process was ended");
}

void WorkerPool::Worker::receive(std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = recv(socket_, to.data(), to.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw_ended();
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

bool WorkerPool::Worker::has_answered() const {
  pollfd polled{socket_, POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

ConstArray WorkerPool::Worker::make_array(std::span<const std::uint64_t> words) const {
  const std::uint64_t offset = words[0], dtype = words[1], rank = words[2];
  bool is_good = dtype <= static_cast<std::uint64_t>(DType::float32) && rank <= Shape::kMaxRank &&
                 offset <= mapped_bytes_;
  ConstArray array;
  std::uint64_t bytes = 1;
  if (is_good) {
    array.dtype = static_cast<DType>(dtype);
    array.shape.rank = rank;
    bytes = size_bytes(array.dtype);
    for (std::size_t i = 0; i < rank; ++i) {
      array.shape.dims[i] = static_cast<std::int64_t>(words[3 + i]);
      is_good = is_good && !__builtin_mul_overflow(bytes, words[3 + i], &bytes);
    }
  }
  if (!is_good || bytes > mapped_bytes_ - offset)
    throw WorkerLost("worker process " + std::to_string(number_) +
                     " sent an answer that is not valid");
  array.data = mapped_ + offset;
  return array;
}

WorkerAnswer WorkerPool::Worker::receive_answer(Head& head, const Wakes& wakes,
                                                const std::function<void()>& on_wait) {
  await_answer(wakes, on_wait);
  // The rest of an answer follows its head immediately, so these waits need not be interruptible.
  receive(std::as_writable_bytes(std::span(&head, 1)));
  if (head.fields > kMostFields || head.text_bytes > kMostText) throw_ended();
  std::vector<std::uint64_t> words(head.fields * kFieldWords);
  WorkerAnswer answer{std::string(head.text_bytes, ' '), {}};
  receive(std::as_writable_bytes(std::span(words)));
  receive(std::as_writable_bytes(std::span(answer.text)));
  answered_ = head.number;
  // This answers an interrupted request. Its values are not looked at, because no thread waits for
  // them.
  if (is_behind()) return answer;
  map(head.memory_bytes);
  for (std::size_t i = 0; i < head.fields; ++i)
    answer.fields.push_back(make_array(std::span(words).subspan(i * kFieldWords, kFieldWords)));
  return answer;
}

bool WorkerPool::Worker::catch_up(const Wakes& wakes, const std::function<void()>& on_wait) {
  Head head{};
  try {
    while (is_behind()) receive_answer(head, wakes, on_wait);
  } catch (const WorkerLost&) {
    // The wait was interrupted. If instead the process has ended, the caller takes another one.
    if (!is_lost()) throw;
  }
  return !is_lost();
}

WorkerAnswer WorkerPool::Worker::ask(const WorkerRequest& request, const ConstArray* input,
                                     const Wakes& wakes, const std::function<void()>& on_wait) {
  Head head{};
  sample_ = request.sample;
  if (input != nullptr) reserve(input->bytes());
  send(request, input);
  WorkerAnswer answer = receive_answer(head, wakes, on_wait);
  if (head.status == kSampleFailed) throw UnfitSample(answer.text);
  if (head.status == kProcessFailed) throw WorkerLost(answer.text);
  return answer;
}

void WorkerPool::Worker::throw_ended() {
  end_ = "worker process " + std::to_string(number_) + " (pid " + std::to_string(process_) + ") " +
         end_of_process() + " while it worked on sample " + std::to_string(sample_);
  throw WorkerLost(end_);
}

std::string WorkerPool::Worker::end_of_process() const {
  // The socket is closed shortly before the process has ended, so its status may not be known yet.
  for (int waits = 0; waits < 1000; ++waits) {
    siginfo_t how{};
    // WNOWAIT leaves the status for the Python code that started the process.
    if (waitid(P_PID, static_cast<id_t>(process_), &how, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (how.si_pid == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const std::string number = std::to_string(how.si_status);
    if (how.si_code == CLD_EXITED) return "exited with code " + number;
    const std::string cause =
        how.si_status == SIGKILL ? ", often because of a lack of memory," : "";
    return "was ended by signal " + number + " (" + strsignal(how.si_status) + ")" + cause;
  }
  return "ended";
}

}  // namespace slipstream
