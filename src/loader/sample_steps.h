#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codecs/jpeg_check.h"
#include "core/trace.h"
#include "loader/canvas.h"
#include "loader/jpeg_route.h"
#include "loader/running_order.h"
#include "loader/sample_cache.h"
#include "loader/slab_writer.h"
#include "loader/step_meter.h"
#include "loader/tolerated_damage.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// The buffers of one worker, reused for each sample.
struct SampleBuffers {
  explicit SampleBuffers(std::size_t fields) : spare(fields) {
    sample.fields.resize(fields);
    part.fields.resize(fields);
  }

  Sample sample;
  std::vector<HostArray> spare;
  Scratch scratch;
  CanvasMemory canvas;
  DecodedPart part;  ///< the decoded part of the sample, if has_part
  bool has_part = false;
  /// Head of the image that travels as a file; its field stays encoded.
  std::optional<JpegSlot> file;
};

/// Copies the content of `from`, reusing the memory of `to`.
void copy_sample(const Sample& from, Sample& to);

/// The host steps, by index: read, decode, each transform, collate. It cannot be moved, because
/// workers share it. An exception of a step is rethrown as an Error that names step, sample, file,
/// epoch and batch.
class SampleSteps {
 public:
  SampleSteps(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
              SlabLayout layout, std::uint64_t seed, const DecodeOptions& decode);
  SampleSteps(const SampleSteps&) = delete;
  SampleSteps& operator=(const SampleSteps&) = delete;

  const std::vector<std::string>& names() const { return names_; }
  std::size_t collate_step() const { return names_.size() - 1; }
  /// Returns the index of the step after the one of this name. REQUIRES: there is one
  std::size_t step_after(const std::string& name) const;
  const std::vector<FieldSpec>& stored() const { return stored_; }
  const SlabLayout& layout() const { return layout_; }
  /// Returns the samples whose files were decoded although they are damaged.
  std::vector<SkippedSample> tolerated() const { return tolerated_.samples(); }
  /// Returns a writer for the row of thread `index`, with events named after the steps; without a
  /// recorder, a writer that records nothing.
  TraceWriter traced(TraceRecorder* recorder, TraceRow::Kind kind, unsigned index) const;

  /// Runs only the first step: reads what the data set has at `place` into `out`.
  void read(const SamplePosition& place, Sample& out, StepMeter& meter) const;
  /// Runs the steps from `first` up to, but excluding, `last` (at most collate_step()) on
  /// buffers.sample. If `is_kept`, the result is used in other epochs too, so the whole image is
  /// decoded, not only the part that this epoch's crop reads.
  void run(std::size_t first, std::size_t last, const SamplePosition& place, SampleBuffers& buffers,
           StepMeter& meter, bool is_kept = false) const;
  /// Runs the last step: copies buffers.sample, as run() left it, to its position in the slab.
  void collate(const SamplePosition& place, SampleBuffers& buffers, std::byte* slab,
               StepMeter& meter) const;
  /// Runs the last step for a whole sample that is not in the buffers; `memory` is used only for
  /// canvases.
  void collate(const SamplePosition& place, const Sample& sample, CanvasMemory& memory,
               std::byte* slab, StepMeter& meter) const;
  void collate(const SamplePosition& place, std::span<const CachedField> sample,
               CanvasMemory& memory, std::byte* slab, StepMeter& meter) const;

 private:
  /// Runs and measures a step. `work` returns the number of bytes that it made.
  template <typename Work>
  void metered(std::size_t step, const SamplePosition& place, StepClock& clock, StepMeter& meter,
               const Work& work) const;
  template <typename Write>
  void collate_by(const SamplePosition& place, StepMeter& meter, const Write& write) const;
  std::size_t run_step(std::size_t step, bool must_be_complete, const SamplePosition& place,
                       SampleBuffers& buffers) const;
  std::size_t read_fields(const SamplePosition& place, Sample& out) const;
  std::size_t decode(const SamplePosition& place, SampleBuffers& buffers, bool all_of_it) const;
  bool decode_part(std::size_t field, const DecodeOptions& options, SampleBuffers& buffers) const;
  void find_part(const SamplePosition& place, SampleBuffers& buffers) const;
  void find_file(const SamplePosition& place, SampleBuffers& buffers) const;
  std::size_t transform(std::size_t index, const SamplePosition& place,
                        SampleBuffers& buffers) const;
  [[noreturn]] void throw_named(std::size_t step, const SamplePosition& place) const;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<NamedOp> transforms_;
  SlabLayout layout_;
  JpegRoute route_;
  /// Finds damaged files, which must not reach the device.
  const std::unique_ptr<JpegCheck> check_;
  std::uint64_t seed_;
  DecodeOptions decode_;
  mutable ToleratedDamage tolerated_;
  std::vector<std::string> names_;
  std::vector<std::size_t> key_numbers_;  ///< numbers of the transforms in random keys
  std::optional<AnyOp> first_;            ///< first transform, here or on canvases, if there is one
  bool decodes_parts_;             ///< if the options, that transform and the data set allow it
  std::vector<FieldSpec> stored_;  ///< as the data set declares its fields
  SlabWriter writer_;
};

}  // namespace slipstream
