#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bindings/sample_texts.h"
#include "bindings/worker_pool.h"
#include "slipstream/datasets/dataset.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// A data set that reads its samples in worker processes. All samples have the same structure. The
/// image, if any, is a field of the kind `image`. All other values are bytes, in fields of the kind
/// `other`. Strings are in texts(), and the last field contains their positions there.
class ProcessDataset final : public Dataset {
 public:
  /// `form`: text that describes the structure of every sample; a sample with another one is
  /// refused. `specs`: the fields of every sample. `has_texts`: whether samples contain strings.
  ProcessDataset(std::shared_ptr<WorkerPool> pool, std::size_t size, std::string form,
                 std::vector<FieldSpec> specs, bool has_texts);

  std::size_t size() const override { return size_; }
  std::vector<FieldSpec> fields() const override;
  void read(std::size_t index, Sample& out) const override;
  void read_keyed(std::size_t index, const RandomKey& key, Sample& out) const override;
  /// Sets whether images may have different sizes.
  void let_sizes_differ(bool differ) { sizes_differ_ = differ; }
  /// Returns this data set for one user, whose waits can be ended.
  std::shared_ptr<const Dataset> used_by(std::shared_ptr<const PoolUser> user) const;
  /// Returns a copy with separate texts(), for another loader.
  std::shared_ptr<const Dataset> separate() const;
  /// Strings of samples, or nullptr if there are none. A sample that was read may be in at most one
  /// batch.
  const std::shared_ptr<SampleTexts>& texts() const { return texts_; }

 private:
  void put_text(std::uint64_t epoch, ConstArray text, HostArray& out) const;

  std::shared_ptr<WorkerPool> pool_;
  std::shared_ptr<const PoolUser> user_;
  std::size_t size_;
  std::string form_;
  std::vector<FieldSpec> specs_;
  std::shared_ptr<SampleTexts> texts_;
  bool sizes_differ_ = false;
};

/// Consecutive functions of Python for images, which worker processes call.
struct PythonOp {
  static constexpr std::string_view kName = "python";
  struct Drawn {
    std::uint64_t sample, seed;
  };
  /// Shape and type of the resulting image.
  struct Form {
    DType dtype;
    Shape shape;
  };
  using Forms = std::map<std::string, Form>;

  std::shared_ptr<WorkerPool> pool;
  std::uint64_t step = 0;
  bool keeps_sizes = false;  ///< refuse other sizes, because another field has the image's size
  /// Dtype and shape of the image that the functions return, by the name of its field. Learned by
  /// calling them for one sample; -1 is a size that differs between samples.
  std::shared_ptr<Forms> forms = std::make_shared<Forms>();
  /// Whether the functions may use random numbers; if false, evaluations call them, too.
  bool may_draw = true;
  std::shared_ptr<const PoolUser> user = nullptr;  ///< nullptr: waits cannot be ended

  void validate() const {}
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return may_draw; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  void make(const Drawn& drawn, FieldKind kind, ConstArray in, HostArray& out) const;
};

inline constexpr const char* kNoImages =
    "transforms in Python apply to images, but the data set has none";

/// Throws UnfitSample if a function has changed the size of an image that has masks or boxes.
void require_size(const Shape& before, const Shape& made);

/// Returns the seed of Python's generators for a sample. `work`: 0 for reading, otherwise a step.
std::uint64_t python_seed(const RandomKey& key, std::uint64_t work);

/// Applies the chain to one sample, to learn the forms of the images that its steps in Python
/// return. If the chain ends with images of equal size, allows different sizes before. Throws
/// UnfitSample if another sample might succeed, otherwise Error. Both messages contain the step and
/// the sample.
void learn_forms(Dataset& dataset, const std::vector<NamedOp>& chain, const RandomKey& key);

}  // namespace slipstream
