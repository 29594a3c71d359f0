#pragma once

#include <pthread.h>

#include <cstddef>

namespace slipstream {

/// While an object of this class exists, no thread can start: the default stack does not fit into
/// the address space.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    ::pthread_attr_t huge;
    ::pthread_getattr_default_np(&huge);
    ::pthread_attr_setstacksize(&huge, std::size_t{1} << 50);
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  ::pthread_attr_t before_{};
};

}  // namespace slipstream
