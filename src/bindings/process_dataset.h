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

/// A data set that worker processes read. All its samples have the form of one of them. Its image,
/// if any, is a field of the kind `image`; all else is of the kind `other`, as bytes. Strings are
/// in texts(); the last field says where.
class ProcessDataset final : public Dataset {
 public:
  /// `form`, `specs`: of the sample that all others are like, which has strings with `has_texts`.
  ProcessDataset(std::shared_ptr<WorkerPool> pool, std::size_t size, std::string form,
                 std::vector<FieldSpec> specs, bool has_texts);

  std::size_t size() const override { return size_; }
  std::vector<FieldSpec> fields() const override;
  void read(std::size_t index, Sample& out) const override;
  void read_keyed(std::size_t index, const RandomKey& key, Sample& out) const override;
  /// Whether images may differ in size from sample to sample.
  void let_sizes_differ(bool differ) { sizes_differ_ = differ; }
  /// The same, read by `user` alone, whose waits can be ended.
  std::shared_ptr<const Dataset> used_by(std::shared_ptr<const PoolUser> user) const;
  /// nullptr: samples have no strings. What was read is to be in one batch, or in none.
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

/// A run of functions in Python on images, done by worker processes.
struct PythonOp {
  static constexpr std::string_view kName = "python";
  struct Drawn {
    std::uint64_t sample, seed;
  };
  /// What it makes of an image.
  struct Form {
    DType dtype;
    Shape shape;
  };
  using Forms = std::map<std::string, Form>;

  std::shared_ptr<WorkerPool> pool;
  std::uint64_t step = 0;
  bool keeps_sizes = false;  ///< others are refused, as something else has the image's size
  std::shared_ptr<Forms> forms = std::make_shared<Forms>();  ///< by field, as one sample has shown
  bool may_draw = true;                                      ///< false: evaluation does it as well
  std::shared_ptr<const PoolUser> user = nullptr;            ///< nullptr: waits go on to their end

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
    "transforms in Python are done to images, but the data set has none";

/// Throws UnfitSample where a function has made an image of another size beside masks or boxes.
void require_size(const Shape& before, const Shape& made);

/// The seed of Python's generators for that place and work; 0: reading, 1 and more: a step.
std::uint64_t python_seed(const RandomKey& key, std::uint64_t work);

/// Does the chain to one sample, to learn what its steps in Python make of images; then lets images
/// differ in size where the chain gives them one size after all. Throws UnfitSample where another
/// sample might do, else Error; both name step and sample.
void learn_forms(Dataset& dataset, const std::vector<NamedOp>& chain, const RandomKey& key);

}  // namespace slipstream
