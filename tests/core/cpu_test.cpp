#include "slipstream/core/cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <latch>
#include <thread>

#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

TEST(UsableCores, AreLimitedByCgroupQuota) {
  const TemporaryFolder folder;
  const auto cores = static_cast<unsigned>(allowed_cpus().size());
  EXPECT_EQ(usable_cores(folder.path()), cores);
  for (const auto& [limit, expected] : {std::pair("max 100000", cores),
                                        {"50000 100000", 1U},
                                        {"100000 100000", 1U},
                                        {"150000 100000", std::min(cores, 2U)},
                                        {"100000000 100000", cores}}) {
    std::ofstream(folder.path() / "cpu.max") << limit << "\n";
    EXPECT_EQ(usable_cores(folder.path()), expected) << limit;
  }
}

TEST(CpuListText, ParsesToSortedUniqueCpus) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11"), CpuList({0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list(" 7\n"), CpuList({7}));
  EXPECT_EQ(parse_cpu_list("8,1-2,2-3,8"), CpuList({1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5-5,65535"), CpuList({5, 65535}));
}

TEST(CpuListText, InvalidTextIsRefusedWithReason) {
  for (const char* text : {"",
                           " ",
                           ",",
                           "1,",
                           ",1",
                           "1,,2",
                           "-",
                           "-1",
                           "1-",
                           "3-1",
                           "1-2-3",
                           "a",
                           "1 2",
                           "1, 2",
                           "+1",
                           "0x1",
                           "1.5",
                           "65536",
                           "0-65536",
                           "99999999999999999999",
                           "0-4294967296"}) {
    EXPECT_THAT(thrown_by([&] { parse_cpu_list(text); }),
                testing::AllOf(HasSubstr("Refused: '"), HasSubstr("is not a list of CPUs: "),
                               HasSubstr("such as 0-3,8")))
        << text;
  }
  EXPECT_THAT(thrown_by([] { parse_cpu_list("0,3-1"); }),
              HasSubstr("'0,3-1' is not a list of CPUs: 3-1 has its larger number first"));
  EXPECT_THAT(thrown_by([] { parse_cpu_list("0,70000"); }), HasSubstr("70000 is over 65535"));
  EXPECT_THAT(thrown_by([] { parse_cpu_list("0,x"); }), HasSubstr("'x' is not a number"));
}

TEST(CpuListText, FormatsConsecutiveCpusAsRanges) {
  for (const char* text : {"0", "0-3,8,10-11", "1,3,5", "0-65535"}) {
    EXPECT_EQ(format_cpu_list(parse_cpu_list(text)), text);
  }
  EXPECT_EQ(format_cpu_list(parse_cpu_list("3,2,1,9,8")), "1-3,8-9");
  EXPECT_EQ(format_cpu_list({}), "");
}

TEST(CpuBindingTest, AppliesToNewThreadsAndIsRestoredOnDestruction) {
  const CpuList before = allowed_cpus();
  if (before.size() < 2) GTEST_SKIP() << "this process may use only one CPU";
  std::latch ended(1);
  std::jthread later;
  {
    const CpuBinding outer(std::vector{before.front(), before.back()});
    const CpuList last = {before.back()};
    const CpuBinding inner(last);
    EXPECT_EQ(allowed_cpus(), last);
    later = std::jthread([&ended, last] {
      ended.wait();
      EXPECT_EQ(allowed_cpus(), last);
    });
  }
  EXPECT_EQ(allowed_cpus(), before);
  ended.count_down();
}

TEST(CpuBindingTest, EmptyListChangesNothing) {
  const CpuList before = allowed_cpus();
  const CpuBinding none({});
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(CpuBindingTest, UnavailableCpuThrowsAndChangesNothing) {
  const CpuList before = allowed_cpus();
  EXPECT_THAT(thrown_by([] { const CpuBinding nowhere(CpuList{65535}); }),
              HasSubstr("Error: cannot run on CPUs 65535: "));
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(CheckCpus, ListsUnavailableAndAllowedCpus) {
  const CpuList allowed = allowed_cpus();
  ASSERT_FALSE(allowed.empty());
  std::vector<std::string> problems;
  check_cpus({}, problems);
  check_cpus(allowed, problems);
  EXPECT_TRUE(problems.empty());

  const CpuList only = {allowed.front()};
  const CpuBinding bound(only);
  check_cpus(CpuList{65534, allowed.front(), 65533, 65534}, problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], testing::AllOf(HasSubstr("CPUs 65533-65534 may not be used"),
                                          HasSubstr("keeps it on " + format_cpu_list(only) + ")")));
}

class CpuTopologyTest : public testing::Test {
 protected:
  const std::filesystem::path& root() const { return folder_.path(); }
  void write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }

  TemporaryFolder folder_;
};

TEST_F(CpuTopologyTest, NodeCpusAreReadFromSysfs) {
  write("devices/system/node/node0/cpulist", "0-3,8\n");
  write("devices/system/node/node1/cpulist", "\n");
  write("devices/system/node/node2/cpulist", "many\n");
  EXPECT_EQ(cpus_of_node(0, root()), CpuList({0, 1, 2, 3, 8}));
  for (const unsigned unknown : {1u, 2u, 3u}) EXPECT_TRUE(cpus_of_node(unknown, root()).empty());
}

TEST_F(CpuTopologyTest, PciDeviceIsFoundForEveryAddressSpelling) {
  write("bus/pci/devices/0000:af:00.0/numa_node", "1\n");
  write("bus/pci/devices/0000:af:00.0/local_cpulist", "4-7\n");
  for (const char* address : {"0000:af:00.0", "0000:AF:00.0", "00000000:AF:00.0", "0:af:0.0"}) {
    const PciLocation place = locate_pci_device(address, root());
    EXPECT_EQ(place.node, 1u) << address;
    EXPECT_EQ(place.cpus, CpuList({4, 5, 6, 7})) << address;
  }
  write("bus/pci/devices/10002:0b:1f.7/numa_node", "0\n");
  EXPECT_EQ(locate_pci_device("10002:0b:1f.7", root()).node, 0u);
}

TEST_F(CpuTopologyTest, MissingOrInvalidSysfsEntryGivesUnknownLocation) {
  write("bus/pci/devices/0000:01:00.0/numa_node", "-1\n");
  write("bus/pci/devices/0000:01:00.0/local_cpulist", "0-1\n");
  const PciLocation one_node = locate_pci_device("0000:01:00.0", root());
  EXPECT_FALSE(one_node.node);
  EXPECT_EQ(one_node.cpus, CpuList({0, 1}));

  write("bus/pci/devices/numa_node", "3\n");
  for (const char* address : {"0000:02:00.0", "", "..", "0000:01:00", "0000:01:00.0/", "x:01:00.0",
                              "0000:01:00.0 ", "0000-01-00.0", "fffffffff:01:00.0"}) {
    const PciLocation place = locate_pci_device(address, root());
    EXPECT_FALSE(place.node) << address;
    EXPECT_TRUE(place.cpus.empty()) << address;
  }
  EXPECT_TRUE(cpus_of_node(0, root() / "gone").empty());
}

}  // namespace
}  // namespace slipstream
