#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/loader_fixture.h"
#include "slipstream/core/cpu.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

/// Records the CPUs that the calling threads may use when they allocate or read.
class SeenCpus {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    lists_.push_back(allowed_cpus());
  }
  std::vector<CpuList> lists() const {
    const std::lock_guard lock(mutex_);
    return lists_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<CpuList> lists_;
};

class SeenMemory final : public std::pmr::memory_resource {
 public:
  explicit SeenMemory(SeenCpus& seen) : seen_(seen) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    seen_.add();
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(pointer, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  SeenCpus& seen_;
};

class LoaderCpus : public testing::Test {
 protected:
  void SetUp() override {
    if (all_.size() < 2) GTEST_SKIP() << "this process may use only one CPU";
    options_.cpus = {all_.back()};
    dataset_->on_read = [this](std::size_t) { reading_.add(); };
    dataset_->on_decode = [this](std::size_t) { decoding_.add(); };
  }

  const CpuList all_ = allowed_cpus();
  const std::shared_ptr<TestSet> dataset_ = std::make_shared<TestSet>(16);
  SeenCpus reading_;
  SeenCpus decoding_;
  DataLoaderOptions options_ = {{.batch_size = 2}, {.num_workers = 3}};
};

TEST_F(LoaderCpus, ApplyToWorkersAndReaders) {
  for (const unsigned reads : {0u, 2u}) {
    options_.read_ahead.reads = reads;
    DataLoader loader(dataset_, no_transforms(), options_);
    EXPECT_EQ(allowed_cpus(), all_);
    take(loader, 4);
  }
  EXPECT_GE(reading_.lists().size(), 2 * 4 * options_.batch_size);
  EXPECT_GE(decoding_.lists().size(), 2 * 4 * options_.batch_size);
  EXPECT_THAT(reading_.lists(), testing::Each(options_.cpus));
  EXPECT_THAT(decoding_.lists(), testing::Each(options_.cpus));
}

TEST_F(LoaderCpus, ApplyToThreadsThatFillACut) {
  options_.cut = HostCut{"decode", 4};
  const DataLoader loader(dataset_, no_transforms(), options_);
  EXPECT_EQ(reading_.lists().size(), 4u);
  EXPECT_THAT(reading_.lists(), testing::Each(options_.cpus));
}

TEST_F(LoaderCpus, ApplyWhileSlabsAreAllocated) {
  SeenCpus making;
  SeenMemory memory(making);
  options_.memory = &memory;
  const DataLoader loader(dataset_, no_transforms(), options_);
  EXPECT_EQ(making.lists().size(), loader.slabs());
  EXPECT_THAT(making.lists(), testing::Each(options_.cpus));
}

TEST_F(LoaderCpus, CallerBindingIsRestoredIfConstructionFails) {
  dataset_->on_read = [](std::size_t) { throw Error("gone"); };
  options_.cut = HostCut{"read", 4};
  EXPECT_THROW(DataLoader(dataset_, no_transforms(), options_), Error);
  EXPECT_EQ(allowed_cpus(), all_);
}

TEST_F(LoaderCpus, DefaultUsesAllAllowedCpus) {
  options_.cpus = {};
  DataLoader loader(dataset_, no_transforms(), options_);
  take(loader, 4);
  EXPECT_GE(reading_.lists().size(), 4 * options_.batch_size);
  EXPECT_THAT(reading_.lists(), testing::Each(all_));
}

TEST_F(LoaderCpus, UnavailableCpusAreRefused) {
  options_.cpus = {all_.front(), 65000};
  options_.num_workers = 0;
  EXPECT_THAT(refusal(dataset_, no_transforms(), options_),
              testing::AllOf(HasSubstr("CPUs 65000 may not be used by this process"),
                             HasSubstr(format_cpu_list(all_)), HasSubstr("num_workers 0")));
}

}  // namespace
}  // namespace slipstream
