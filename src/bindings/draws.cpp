#include "bindings/draws.h"

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <ATen/CPUGeneratorImpl.h>
#include <pthread.h>
#include <pybind11/gil_safe_call_once.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <bit>
#include <ctime>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "bindings/gil.h"
#include "bindings/loop_error.h"
#include "core/fingerprint.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Returns an attribute by an interned name. pybind11 creates a string from the name in each call,
/// which takes longer than the rest of a check.
py::object attribute(py::handle object, PyObject* name) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name);
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

std::mutex& generator_mutex() {
  at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
  return generator.mutex();
}

}  // namespace

void prepare_for_forks() {
  at::zeros({1}).copy_(at::ones({1}));  // any operation makes PyTorch choose its kernels
  const int error =
      pthread_atfork([] { generator_mutex().lock(); }, [] { generator_mutex().unlock(); },
                     [] { generator_mutex().unlock(); });
  ensure(error == 0, "handlers of forks can be registered");
}

void OtherThreads::begin() {
  if (have_changed()) {
    threads_.clear();
    const py::object ids = py::module_::import("slipstream._random_states").attr("other_threads")();
    for (const py::handle id : ids) threads_.push_back({id.cast<int>(), 0});
  }
  for (Thread& each : threads_) each.time_ns = time_ns(each.id);
}

bool OtherThreads::have_run() {
  return have_changed() || std::any_of(threads_.begin(), threads_.end(), [](const Thread& each) {
           return time_ns(each.id) != each.time_ns;
         });
}

/// Whether threads have been started or have ended since the last call.
bool OtherThreads::have_changed() {
  // threading._active instead of threading.enumerate(), which takes a lock and creates a list: this
  // is called before and after each part of the loop.
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> active;
  const auto import = [] { return py::object(py::module_::import("threading").attr("_active")); };
  PyObject* const threads = active.call_once_and_store_result(import).get_stored().ptr();
  std::size_t count = 0;
  bool is_same = true;
  PyObject* thread = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(threads, &at, nullptr, &thread) != 0; ++count)
    is_same = is_same && count < known_.size() && known_[count] == thread;
  if (is_same && count == known_.size()) return false;
  known_.clear();
  for (Py_ssize_t at = 0; PyDict_Next(threads, &at, nullptr, &thread) != 0;)
    known_.push_back(thread);
  return true;
}

/// CPU time of a thread; -1 if it has ended.
std::int64_t OtherThreads::time_ns(int thread) {
  constexpr int kOfThreadByScheduler = 6;  // the clock of pthread_getcpuclockid(), from a thread id
  // pthread_getcpuclockid() needs the thread's pthread_t, which is invalid once the thread has
  // ended. The clock of a thread id then only reports an error.
  const auto clock =
      static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | kOfThreadByScheduler);
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return -1;
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// A random generator whose use is checked.
class DrawOrder::Generator {
 public:
  using Words = std::array<std::uint64_t, 5>;

  virtual ~Generator() = default;
  void begin() { before_ = words(); }
  bool has_changed() { return words() != before_; }
  void drawn(const std::string& who, LoopPosition position) {
    if (latest_ && position < latest_->second) throw LoopCheckFailed(conflict(latest_->first, who));
    latest_.emplace(who, position);
  }

 protected:
  /// A few words of the state that change with each use.
  virtual Words words() = 0;
  virtual std::string name() const = 0;
  virtual std::string own_one() const = 0;
  virtual bool has_seeds() const { return false; }

 private:
  std::string conflict(const std::string& other, const std::string& who) const {
    const std::string text = other + " and " + who + " both draw random numbers from " + name() +
                             ". Because stages run ahead of the loop body, they would use the "
                             "generator in another order than a plain loop. Remedy: ";
    const bool is_loaders = other == kLoader || who == kLoader;
    if (has_seeds() && !is_loaders)
      return text + "give the stage a separate seed, slipstream.Stage(..., seed=1)";
    return text + "let " + (is_loaders ? kLoader : "the stage") +
           " use a separate generator, for example " + own_one() +
           (is_loaders ? ", or in workers" : "");
  }

  Words before_{};
  std::optional<std::pair<std::string, LoopPosition>> latest_;
};

class DrawOrder::TorchGenerator final : public Generator {
 public:
  explicit TorchGenerator(c10::Device device)
      : device_(device), generator_(at::globalContext().defaultGenerator(device)) {}

 protected:
  Words words() override {
    const std::lock_guard lock(generator_.mutex());
    // A GPU's generator is a counter (Philox): its seed and offset are its whole state.
    if (!device_.is_cpu()) return {generator_.current_seed(), generator_.get_offset()};
    auto* const generator = generator_.get<at::CPUGeneratorImpl>();
    // data() would copy the 2.5 kB of the state once more.
    static_assert(std::is_standard_layout_v<at::mt19937> &&
                  sizeof(at::mt19937) == sizeof(at::mt19937_data_pod));
    const at::mt19937 engine = generator->engine();
    const auto& state = reinterpret_cast<const at::mt19937_data_pod&>(engine);
    const auto of_float = generator->next_float_normal_sample();
    const auto of_double = generator->next_double_normal_sample();
    // The position changes with each number. After 624 numbers it returns to the same value, but by
    // then all words of the state have been replaced. Normal numbers are computed in pairs: the
    // second one is kept for the next call, which then changes nothing else.
    return {state.seed_, static_cast<std::uint64_t>(state.left_) << 32 | state.next_,
            static_cast<std::uint64_t>(state.state_[0]) << 32 | state.state_[1],
            of_float ? 1 + std::uint64_t{std::bit_cast<std::uint32_t>(*of_float)} : 0,
            of_double ? std::bit_cast<std::uint64_t>(*of_double) : 1};
  }
  std::string name() const override { return "PyTorch's generator of " + device_.str(); }
  std::string own_one() const override { return "torch.Generator() (generator=...)"; }
  bool has_seeds() const override { return true; }

 private:
  c10::Device device_;
  at::Generator generator_;
};

/// NumPy's default generator, an MT19937, if the program has imported NumPy.
class DrawOrder::NumpyGenerator final : public Generator {
 protected:
  Words words() override {
    static PyObject* const module_name = PyUnicode_InternFromString("numpy.random.mtrand");
    // Only looked up: importing NumPy would take long, and a program without it cannot use its
    // generator.
    PyObject* const module = PyDict_GetItem(PyImport_GetModuleDict(), module_name);
    if (module == nullptr || module == Py_None) return {};
    static PyObject* const rand_name = PyUnicode_InternFromString("_rand");
    static PyObject* const bits_name = PyUnicode_InternFromString("_bit_generator");
    const py::object bits = attribute(attribute(module, rand_name), bits_name);
    if (!bits.is(bits_)) take(bits);
    if (state_ == nullptr) return {};
    return {reinterpret_cast<std::uintptr_t>(state_), state_->position, state_->key[0],
            state_->key[1], state_->key[kWords - 1]};
  }
  std::string name() const override { return "numpy.random"; }
  std::string own_one() const override { return "numpy.random.default_rng(1)"; }

 private:
  static constexpr std::size_t kWords = 624;
  /// The layout of NumPy's mt19937_state.
  struct State {
    std::uint32_t key[kWords];
    std::uint32_t position;
  };

  void take(const py::object& bits) {
    bits_ = bits;
    state_ = nullptr;
    if (py::str(py::type::of(bits).attr("__name__")).cast<std::string>() != "MT19937") return;
    const py::object capsule = bits.attr("capsule");
    // The first member of NumPy's bitgen_t is the state.
    auto* const generator =
        static_cast<State**>(PyCapsule_GetPointer(capsule.ptr(), "BitGenerator"));
    if (generator == nullptr) throw py::error_already_set();
    state_ = *generator;
  }

  py::object bits_;
  const State* state_ = nullptr;
};

/// The generator that the functions of Python's module `random` use.
class DrawOrder::PythonGenerator final : public Generator {
 public:
  PythonGenerator() : generator_(py::module_::import("random").attr("_inst")) {
    const py::object base = py::module_::import("_random").attr("Random");
    const auto size = base.attr("__basicsize__").cast<std::size_t>();
    // A CPython with another layout would have another size. Its generator is then not checked.
    if (size == sizeof(State) && py::isinstance(generator_, base))
      state_ = reinterpret_cast<const State*>(generator_.ptr());
  }

 protected:
  Words words() override {
    if (state_ == nullptr) return {};
    static PyObject* const gauss_name = PyUnicode_InternFromString("gauss_next");
    const py::object gauss = attribute(generator_, gauss_name);
    return {static_cast<std::uint64_t>(state_->position), state_->key[0], state_->key[1],
            gauss.is_none() ? 1 : std::bit_cast<std::uint64_t>(gauss.cast<double>())};
  }
  std::string name() const override { return "the module random"; }
  std::string own_one() const override { return "random.Random(1)"; }

 private:
  /// The layout of CPython's RandomObject.
  struct State {
    PyObject head;
    int position;
    std::uint32_t key[624];
  };

  py::object generator_;
  const State* state_ = nullptr;
};

DrawOrder::DrawOrder(c10::Device device) {
  for (const c10::Device each : drawing_devices(device))
    generators_.push_back(std::make_unique<TorchGenerator>(each));
  generators_.push_back(std::make_unique<NumpyGenerator>());
  generators_.push_back(std::make_unique<PythonGenerator>());
}

DrawOrder::~DrawOrder() {
  const GilAcquire locked;
  generators_.clear();
}

void DrawOrder::begin() {
  others_.begin();
  for (const auto& each : generators_) each->begin();
}

void DrawOrder::end(const std::string& who, LoopPosition position) {
  const auto has_changed = [](const auto& each) { return each->has_changed(); };
  const auto first = std::find_if(generators_.begin(), generators_.end(), has_changed);
  if (first == generators_.end() || others_.have_run()) return;
  for (auto each = first; each != generators_.end(); ++each)
    if ((*each)->has_changed()) (*each)->drawn(who, position);
}

KeyedDraws::KeyedDraws(c10::Device device, std::uint64_t seed, std::uint64_t number)
    : before_(device) {
  const std::array key = {seed, number};
  const std::uint64_t digest = fingerprint(key.data(), sizeof key);
  for (const c10::Device each : drawing_devices(device)) {
    at::Generator generator = at::globalContext().defaultGenerator(each);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(digest);
  }
}

KeyedDraws::~KeyedDraws() { before_.restore(); }

}  // namespace slipstream
