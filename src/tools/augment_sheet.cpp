#include "tools/augment_sheet.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "core/number_text.h"
#include "loader/bad_samples.h"
#include "loader/sample_steps.h"
#include "loader/sampler.h"
#include "loader/slab_layout.h"
#include "tools/shown_image.h"

namespace slipstream {
namespace {

constexpr std::int64_t kLeastCell = 16;
constexpr std::int64_t kMostCell = 4096;

SlabLayout checked_layout(const Dataset& dataset, const std::vector<NamedOp>& chain,
                          const AugmentSheetOptions& options) {
  std::vector<std::string> problems;
  if (options.samples == 0) problems.emplace_back("0 samples: give at least 1");
  if (options.versions == 0) problems.emplace_back("0 versions: give at least 1");
  if (options.cell < kLeastCell || options.cell > kMostCell) {
    problems.push_back("cells of " + std::to_string(options.cell) + " pixels: give " +
                       std::to_string(kLeastCell) + " to " + std::to_string(kMostCell));
  } else {
    const auto most = static_cast<std::size_t>(kDefaultPixelLimit / (options.cell * options.cell));
    const std::size_t rows = std::min(options.samples, dataset.size());
    if (options.versions >= most || rows > most / (options.versions + 1))
      problems.push_back(
          format_count(rows, "sample") + " of " + format_count(options.versions, "version") +
          " result in a sheet of more than " + std::to_string(most) + " tiles: give fewer");
  }
  constexpr std::uint32_t kLastEpoch = std::numeric_limits<std::uint32_t>::max();
  if (options.versions > 0 && options.versions - 1 > kLastEpoch - options.epoch)
    problems.push_back("the last version would be that of an epoch above " +
                       std::to_string(kLastEpoch) + ": give an earlier epoch or fewer versions");
  SlabLayout layout = plan_slab(dataset, chain, {{.batch_size = 1}, {}}, problems);
  refuse(problems);
  return layout;
}

class SheetMaker {
 public:
  SheetMaker(std::shared_ptr<const Dataset> dataset, const std::vector<NamedOp>& chain,
             SlabLayout layout, const AugmentSheetOptions& options)
      : options_(options),
        dataset_(std::move(dataset)),
        order_(dataset_->size(), true, options.seed),
        steps_(dataset_, chain, std::move(layout), options.seed,
               {.background = options.background, .partial = false}),
        image_(find_image(steps_.stored(), steps_.layout())),
        buffers_(steps_.stored().size()),
        meter_(steps_.names().size()),
        slab_(steps_.layout().bytes),
        levels_(levels_after(chain, steps_.stored()[image_])) {}

  AugmentSheet run() {
    for (std::uint64_t i = 0; i < order_.size() && result_.samples.size() < options_.samples; ++i) {
      if (options_.stop && options_.stop()) return std::move(result_);
      const std::uint64_t sample = order_.at(options_.epoch, i);
      try {
        add_row({.position = 0, .epoch = options_.epoch, .sample = sample});
      } catch (const BadSample& bad) {
        if (options_.on_bad_sample == OnBadSample::stop) throw;
        result_.skipped.push_back({sample, bad.what()});
      }
    }
    if (tiles_.empty())
      throw Error(all_are_bad(result_.skipped.size()) +
                  "; the first: " + result_.skipped.front().message);
    result_.sheet = {std::move(tiles_), options_.versions + 1, options_.cell};
    return std::move(result_);
  }

 private:
  void add_row(SamplePosition place) {
    const std::size_t decoded = steps_.step_after("decode");
    const std::size_t collate = steps_.collate_step();
    std::vector<Tile> row;
    steps_.run(0, decoded, place, buffers_, meter_, true);
    copy_sample(buffers_.sample, original_);
    check_image(original_.fields[image_].array.view(), place.sample);
    const std::filesystem::path file = dataset_->name(place.sample);
    row.push_back({tile(original_, {}), {file.filename().string()}});
    for (std::size_t i = 0; i < options_.versions; ++i, ++place.epoch) {
      if (i > 0) copy_sample(original_, buffers_.sample);
      steps_.run(decoded, collate, place, buffers_, meter_);
      // Collated only for its checks: a sample that cannot be put into a batch is a bad sample too.
      steps_.collate(place, buffers_, slab_.data(), meter_);
      row.push_back({tile(buffers_.sample, levels_), {"epoch " + std::to_string(place.epoch)}});
    }
    std::move(row.begin(), row.end(), std::back_inserter(tiles_));
    result_.samples.push_back(place.sample);
  }

  HostArray tile(const Sample& sample, const ShownLevels& levels) const {
    return make_image_tile(sample, steps_.stored(), image_, levels,
                           options_.cell - 2 * kTileBorder);
  }

  const AugmentSheetOptions& options_;
  const std::shared_ptr<const Dataset> dataset_;
  const Sampler order_;
  const SampleSteps steps_;
  const std::size_t image_;
  SampleBuffers buffers_;
  StepMeter meter_;
  std::vector<std::byte> slab_;
  const ShownLevels levels_;
  Sample original_;
  std::vector<Tile> tiles_;
  AugmentSheet result_;
};

}  // namespace

AugmentSheet augment_sheet(std::shared_ptr<const Dataset> dataset,
                           const std::vector<NamedOp>& chain, const AugmentSheetOptions& options) {
  SlabLayout layout = checked_layout(*dataset, chain, options);
  return SheetMaker(std::move(dataset), chain, std::move(layout), options).run();
}

}  // namespace slipstream
