#pragma once

#include <thread>

#include "slipstream/engine/context.h"

namespace slipstream {

/// A context for one run while it lives: its lanes are those of one at a time. Throws Refused where
/// another runs, or another thread holds it.
class Taken {
 public:
  explicit Taken(const Context& context, std::thread::id owner = std::this_thread::get_id());
  ~Taken();
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

 private:
  const Context* context_;
};

/// A context for the runs of one thread while it lives. Throws as Taken does.
class Held {
 public:
  explicit Held(const Context& context);
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  const Context* context_;
};

}  // namespace slipstream
