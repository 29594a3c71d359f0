#include "bindings/epoch_order.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "loader/running_order.h"
#include "slipstream/core/error.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// The order in which a loader of the library gives samples, for code that reads them itself.
class EpochOrder {
 public:
  EpochOrder(std::uint64_t samples, std::size_t batch_size, bool shuffle, bool drop_last,
             std::uint64_t seed, std::pair<std::size_t, std::size_t> rank)
      : samples_(samples), options_(make_options(batch_size, shuffle, drop_last, seed, rank)) {
    std::vector<std::string> problems;
    check_order(samples, options_, problems);
    refuse(problems);
  }

  std::uint64_t batches_per_epoch() const { return order().batches_per_epoch(); }

  /// Returns (sample, occurrence) for each position of a batch, numbered through all epochs.
  std::vector<std::pair<std::uint64_t, std::uint16_t>> batch(std::uint64_t number) const {
    const RunningOrder order = this->order();
    const bool is_last = (number + 1) % order.batches_per_epoch() == 0;
    std::size_t size = options_.batch_size;
    if (is_last && !options_.drop_last) size = last_share(samples_, options_);
    std::vector<std::pair<std::uint64_t, std::uint16_t>> all;
    for (std::size_t i = 0; i < size; ++i) {
      const SamplePosition place = order.at(number, i);
      all.emplace_back(place.sample, place.occurrence);
    }
    return all;
  }

 private:
  static DataLoaderOptions make_options(std::size_t batch_size, bool shuffle, bool drop_last,
                                        std::uint64_t seed,
                                        const std::pair<std::size_t, std::size_t>& rank) {
    DataLoaderOptions options;
    options.batch_size = batch_size;
    options.shuffle = shuffle;
    options.drop_last = drop_last;
    options.seed = seed;
    options.rank = {rank.first, rank.second};
    options.shares_last_step = !drop_last && rank.second > 1;
    return options;
  }
  RunningOrder order() const { return {samples_, options_}; }

  std::uint64_t samples_;
  DataLoaderOptions options_;
};

}  // namespace

void add_epoch_order(py::module_& module) {
  py::class_<EpochOrder>(module, "EpochOrder")
      .def(py::init<std::uint64_t, std::size_t, bool, bool, std::uint64_t,
                    std::pair<std::size_t, std::size_t>>())
      .def("batches_per_epoch", &EpochOrder::batches_per_epoch)
      .def("batch", &EpochOrder::batch);
}

}  // namespace slipstream
