#pragma once

#include <sys/resource.h>

#include <csignal>

namespace slipstream {

/// Lets writes beyond `bytes` bytes of any file fail, as on a full disk.
class WriteLimit {
 public:
  explicit WriteLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const ::rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~WriteLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  WriteLimit(const WriteLimit&) = delete;
  WriteLimit& operator=(const WriteLimit&) = delete;

 private:
  void (*handler_)(int);
  ::rlimit before_{};
};

}  // namespace slipstream
