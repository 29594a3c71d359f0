#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/files.h"
#include "slipstream/datasets/datasets.h"
#include "support/image_records.h"
#include "support/temporary_folder.h"

namespace slipstream {

/// Creates a folder for each test; writing a file creates the folders that it needs.
class FolderTest : public testing::Test {
 protected:
  std::filesystem::path path(const std::filesystem::path& name) const {
    return folder_.path() / name;
  }
  std::filesystem::path write(const std::filesystem::path& name,
                              std::string_view text = "x") const {
    std::filesystem::create_directories(path(name).parent_path());
    write_file_atomically(path(name), text);
    return path(name);
  }
  void write_image(const std::filesystem::path& name,
                   const std::string& record = "rgb_420.jpg") const {
    std::filesystem::create_directories(path(name).parent_path());
    write_file_atomically(path(name), image_record(record).file);
  }
  static std::vector<std::int64_t> labels(const LabeledDataset& dataset) {
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < dataset.size(); ++i) all.push_back(dataset.label(i));
    return all;
  }

  TemporaryFolder folder_;
};

}  // namespace slipstream
