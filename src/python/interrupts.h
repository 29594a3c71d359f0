#pragma once

namespace slipstream {

/// Takes Ctrl-C while it lives: the first one is counted, for what runs to end in good order; each
/// further one goes to whoever had it before. On Python's main thread alone, where they may nest.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Since the outermost one was made; 0 where there is none.
  static int count();
};

}  // namespace slipstream
