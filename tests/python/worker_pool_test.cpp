#include "bindings/worker_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "slipstream/transforms/op.h"

namespace slipstream {
namespace {

using Request = std::array<std::uint64_t, 10>;
using Head = std::array<std::uint64_t, 5>;

/// Simulates a worker process with a thread that speaks the protocol.
class Peer {
 public:
  Peer(WorkerPool& pool, unsigned number) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    memory_ = memfd_create("test", 0);
    socket_ = ends[1];
    pool.add(ends[0], dup(memory_), number, getpid());
  }
  ~Peer() {
    hang_up();
    close(memory_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Request request() const {
    Request words{};
    EXPECT_EQ(recv(socket_, words.data(), sizeof(words), MSG_WAITALL),
              static_cast<ssize_t>(sizeof(words)));
    return words;
  }
  void answer(std::uint64_t number, std::uint64_t status, const std::string& text) const {
    const Head head{number, status, 0, 0, text.size()};
    send(socket_, head.data(), sizeof(head), MSG_NOSIGNAL);
    send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Answers with `value` as the only field, which claims to have `values` values, at `offset`.
  void answer_value(std::uint64_t number, std::int64_t value, std::uint64_t values,
                    std::uint64_t offset) const {
    constexpr std::size_t kBytes = 4096;
    EXPECT_EQ(ftruncate(memory_, kBytes), 0);
    EXPECT_EQ(pwrite(memory_, &value, sizeof(value), static_cast<off_t>(offset)), 8);
    const std::array<std::uint64_t, 12> words{number, 0, 1,      kBytes, 0, offset,
                                              2,      1, values, 0,      0, 0};
    send(socket_, words.data(), sizeof(words), MSG_NOSIGNAL);
  }
  void hang_up() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }

 private:
  int socket_ = -1, memory_ = -1;
};

std::int64_t ask_for_value(WorkerPool& pool, std::uint64_t sample, const PoolUser* user = nullptr) {
  std::int64_t value = -1;
  const auto take = [&](const WorkerAnswer& answer) {
    value = *answer.fields.at(0).as<std::int64_t>();
  };
  pool.ask({WorkerTask::read, sample, 0, 7}, nullptr, take, user);
  return value;
}

TEST(WorkerPool, AnswersAreReadFromSharedMemory) {
  WorkerPool pool;
  Peer peer(pool, 0);
  std::jthread answers([&] {
    for (std::int64_t i = 0; i < 3; ++i) {
      const Request request = peer.request();
      EXPECT_EQ(request[4], 7u);
      peer.answer_value(request[0], static_cast<std::int64_t>(request[2]) * 10, 1, 64);
    }
  });
  EXPECT_EQ(ask_for_value(pool, 4), 40);
  EXPECT_EQ(ask_for_value(pool, 5), 50);
  EXPECT_EQ(ask_for_value(pool, 6), 60);
}

TEST(WorkerPool, AnswerBeyondSharedMemoryThrowsWorkerLost) {
  for (const std::uint64_t values :
       {std::uint64_t{600}, std::uint64_t{1} << 61, ~std::uint64_t{0}}) {
    WorkerPool pool;
    Peer peer(pool, 3);
    std::jthread answers([&] { peer.answer_value(peer.request()[0], 1, values, 64); });
    EXPECT_THROW(ask_for_value(pool, 0), WorkerLost);
  }
}

TEST(WorkerPool, ErrorStatusThrowsUnfitSampleOrWorkerLost) {
  WorkerPool pool;
  Peer peer(pool, 0);
  std::jthread answers([&] {
    peer.answer(peer.request()[0], 1, "ValueError");
    peer.answer(peer.request()[0], 2, "no memory");
  });
  EXPECT_THROW(ask_for_value(pool, 0), UnfitSample);
  EXPECT_THROW(ask_for_value(pool, 0), WorkerLost);
}

TEST(WorkerPool, EndedWorkerThrowsUntilItIsReplaced) {
  WorkerPool pool;
  Peer peer(pool, 5);
  peer.hang_up();
  EXPECT_THROW(ask_for_value(pool, 0), WorkerLost);
  EXPECT_THROW(ask_for_value(pool, 1), WorkerLost);  // no worker is left
  EXPECT_EQ(pool.take_lost(false), std::vector<unsigned>{5});
  Peer other(pool, 5);
  std::jthread answers([&] { other.answer_value(other.request()[0], 8, 1, 0); });
  EXPECT_EQ(ask_for_value(pool, 0), 8);
}

TEST(WorkerPool, AnswerOfInterruptedWaitIsDiscarded) {
  WorkerPool pool;
  Peer peer(pool, 0);
  PoolUser user, other;
  std::jthread waits([&] { EXPECT_THROW(ask_for_value(pool, 1, &user), WorkerLost); });
  const Request first = peer.request();
  pool.interrupt(user);
  waits.join();
  EXPECT_THROW(ask_for_value(pool, 2, &user), WorkerLost);
  std::jthread answers([&] {
    peer.answer_value(first[0], 10, 1, 0);
    peer.answer_value(peer.request()[0], 30, 1, 0);
  });
  EXPECT_EQ(ask_for_value(pool, 3, &other), 30);
}

TEST(WorkerPool, InterruptingOneUserKeepsOthersWaiting) {
  WorkerPool pool;
  Peer first(pool, 0), second(pool, 1);
  PoolUser leaves, stays;
  std::jthread works([&] { EXPECT_EQ(ask_for_value(pool, 0, &stays), 40); });
  const Request request = first.request();
  std::jthread ends([&] { EXPECT_THROW(ask_for_value(pool, 1, &leaves), WorkerLost); });
  second.request();
  std::jthread waits([&] { EXPECT_EQ(ask_for_value(pool, 2, &stays), 50); });
  pool.interrupt(leaves);
  ends.join();
  first.answer_value(request[0], 40, 1, 0);
  first.answer_value(first.request()[0], 50, 1, 0);
}

TEST(WorkerPool, OnWaitCallbackRunsOnlyInTheThreadThatSetIt) {
  struct Interrupted {};
  WorkerPool pool;
  Peer peer(pool, 0), other(pool, 1);
  std::jthread waits;
  for (int i = 0; i < 5; ++i) {  // the function is replaced while another thread waits
    pool.set_on_wait([] { throw Interrupted(); });
    if (i == 0) waits = std::jthread([&] { EXPECT_THROW(ask_for_value(pool, 1), WorkerLost); });
    EXPECT_THROW(ask_for_value(pool, 2), Interrupted);
    pool.set_on_wait(nullptr);
  }
  pool.close();
}

TEST(WorkerPool, ClosingEndsAllWaits) {
  WorkerPool pool;
  Peer peer(pool, 0);
  std::atomic<int> ended = 0;
  std::vector<std::jthread> waits;
  for (std::uint64_t i = 0; i < 3; ++i)
    waits.emplace_back([&, i] {
      EXPECT_THROW(ask_for_value(pool, i), WorkerLost);
      ++ended;
    });
  peer.request();
  pool.close();
  waits.clear();
  EXPECT_EQ(ended, 3);
  EXPECT_EQ(pool.descriptors().size(), 2u);
}

}  // namespace
}  // namespace slipstream
