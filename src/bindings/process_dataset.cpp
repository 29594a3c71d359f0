#include "bindings/process_dataset.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/one_sample.h"
#include "slipstream/core/error.h"
#include "slipstream/core/philox.h"

namespace slipstream {
namespace {

/// First block of a key for Python. Native operations use the blocks before it.
constexpr std::uint32_t kPythonBlock = 1u << 25;

bool is_image(const FieldSpec& spec) { return spec.kind == FieldKind::image; }

bool fixes_sizes(const std::vector<NamedOp>& chain, std::vector<FieldSpec> specs) {
  std::vector<std::string> problems;
  specs = fields_after(chain, std::move(specs), problems);
  if (!problems.empty()) return true;  // the loader reports them
  return std::all_of(specs.begin(), specs.end(),
                     [](const FieldSpec& spec) { return spec.shape.is_fixed(); });
}

/// Runs each step in Python on one sample, which stores the form of its result.
void run_once(const Dataset& dataset, const std::vector<NamedOp>& chain, const RandomKey& key) {
  const std::vector<FieldSpec> specs = dataset.fields();
  if (std::none_of(specs.begin(), specs.end(), is_image)) throw Refused(kNoImages);
  const auto learn = [&](std::size_t i, const Sample& sample) {
    const auto* python = chain[i].op.get_if<PythonOp>();
    for (std::size_t field = 0; python != nullptr && field < specs.size(); ++field) {
      if (!is_image(specs[field])) continue;
      const ConstArray made = sample.fields[field].array.view();
      python->forms->insert_or_assign(specs[field].name, PythonOp::Form{made.dtype, made.shape});
    }
  };
  made_sample(dataset, chain, key, ", from which the loader learns the structure of all", learn);
}

/// Allows a step in Python to return images of any size if the chain later makes the sizes equal.
void free_sizes(const PythonOp& python, const Dataset& dataset, const std::vector<NamedOp>& chain) {
  const PythonOp::Forms learned = *python.forms;
  for (auto& [name, form] : *python.forms) form.shape = {-1, -1, form.shape[2]};
  if (!fixes_sizes(chain, dataset.fields())) *python.forms = learned;
}

}  // namespace

ProcessDataset::ProcessDataset(std::shared_ptr<WorkerPool> pool, std::size_t size, std::string form,
                               std::vector<FieldSpec> specs, bool has_texts)
    : pool_(std::move(pool)), size_(size), form_(std::move(form)), specs_(std::move(specs)) {
  if (!has_texts) return;
  texts_ = std::make_shared<SampleTexts>();
  specs_.push_back({"slipstream.texts",
                    FieldKind::other,
                    DType::uint8,
                    {std::int64_t{sizeof(SampleTexts::TextSlot)}}});
}

void ProcessDataset::read(std::size_t index, Sample& out) const {
  read_keyed(index, {.sample = index}, out);
}

void ProcessDataset::read_keyed(std::size_t index, const RandomKey& key, Sample& out) const {
  const WorkerRequest request{WorkerTask::read, index, 0, python_seed(key, 0)};
  const auto take = [&](const WorkerAnswer& answer) {
    if (answer.text != form_ || answer.fields.size() != specs_.size())
      throw Error("the sample is " + answer.text + ", but the first one was " + form_ +
                  ": give all samples the same structure, types and shapes, or give the loader a "
                  "collate_fn");
    out.fields.resize(answer.fields.size());
    for (std::size_t i = 0; i < answer.fields.size(); ++i) {
      out.fields[i].encoded = false;
      if (texts_ && i + 1 == specs_.size()) {
        put_text(key.epoch, answer.fields[i], out.fields[i].array);
      } else {
        out.fields[i].array.assign(answer.fields[i]);
      }
    }
  };
  pool_->ask(request, nullptr, take, user_.get());
}

std::shared_ptr<const Dataset> ProcessDataset::used_by(std::shared_ptr<const PoolUser> user) const {
  auto same = std::make_shared<ProcessDataset>(*this);
  same->user_ = std::move(user);
  return same;
}

std::shared_ptr<const Dataset> ProcessDataset::separate() const {
  auto same = std::make_shared<ProcessDataset>(*this);
  if (texts_) same->texts_ = std::make_shared<SampleTexts>();
  return same;
}

void ProcessDataset::put_text(std::uint64_t epoch, ConstArray text, HostArray& out) const {
  const auto* begin = reinterpret_cast<const char*>(text.data);
  const SampleTexts::TextSlot place = texts_->put(epoch, std::string(begin, text.bytes()));
  std::memcpy(out.reset(DType::uint8, specs_.back().shape).data, &place, sizeof(place));
}

std::vector<FieldSpec> ProcessDataset::fields() const {
  std::vector<FieldSpec> specs = specs_;
  for (FieldSpec& spec : specs)
    if (sizes_differ_ && is_image(spec)) spec.shape = {-1, -1, spec.shape[2]};
  return specs;
}

FieldSpec PythonOp::output(const FieldSpec& in) const {
  FieldSpec out = in;
  const auto form = forms->find(in.name);
  if (form == forms->end()) return out;
  out.dtype = form->second.dtype;
  out.shape = form->second.shape;
  if (keeps_sizes) out.shape = {in.shape[0], in.shape[1], out.shape[2]};
  return out;
}

PythonOp::Drawn PythonOp::draw(const RandomKey& key, const Shape&) const {
  return {key.sample, python_seed(key, 1 + step)};
}

void PythonOp::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                     Scratch& scratch) const {
  make(drawn, kind, in, scratch);
  const ConstArray made = scratch.view();
  if (made.dtype != out.dtype || made.shape != out.shape)
    throw UnfitSample("the result is of shape " + to_string(made.shape) + ", not " +
                      to_string(out.shape));
  std::copy_n(made.data, made.bytes(), out.data);
}

void PythonOp::make(const Drawn& drawn, FieldKind, ConstArray in, HostArray& out) const {
  const WorkerRequest request{WorkerTask::transform, drawn.sample, step, drawn.seed};
  const auto take = [&](const WorkerAnswer& answer) {
    if (keeps_sizes) require_size(in.shape, answer.fields.at(0).shape);
    out.assign(answer.fields.at(0));
  };
  pool->ask(request, &in, take, user.get());
}

void require_size(const Shape& before, const Shape& made) {
  if (before[0] == made[0] && before[1] == made[1]) return;
  throw UnfitSample(
      "it makes an image of " + to_string(Shape{made[0], made[1]}) + " pixels from " +
      to_string(Shape{before[0], before[1]}) +
      ", but receives only the image, and another field of the same size would not match it any "
      "more: keep the positions of pixels, transform both fields in __getitem__ of a custom data "
      "set, or return the field that must not change flattened");
}

std::uint64_t python_seed(const RandomKey& key, std::uint64_t work) {
  const PhiloxBlock block = key.block(kPythonBlock + static_cast<std::uint32_t>(work));
  return block[0] | std::uint64_t{block[1]} << 32;
}

void learn_forms(Dataset& dataset, const std::vector<NamedOp>& chain, const RandomKey& key) {
  const auto is_python = [](const NamedOp& each) { return each.op.get_if<PythonOp>() != nullptr; };
  if (std::any_of(chain.begin(), chain.end(), is_python)) run_once(dataset, chain, key);
  for (std::size_t i = chain.size(); i-- > 0;)
    if (is_python(chain[i])) free_sizes(*chain[i].op.get_if<PythonOp>(), dataset, chain);
  auto* in_python = dynamic_cast<ProcessDataset*>(&dataset);
  if (in_python == nullptr) return;
  in_python->let_sizes_differ(true);
  if (!fixes_sizes(chain, dataset.fields())) in_python->let_sizes_differ(false);
}

}  // namespace slipstream
