#pragma once

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace slipstream {

/// While it exists, the process is another user, to whom file permissions apply.
class Unprivileged {
 public:
  Unprivileged() : user_(::geteuid()) {
    constexpr ::uid_t kNobody = 65534;
    if (user_ == 0 && ::seteuid(kNobody) != 0) throw std::runtime_error("seteuid");
  }
  ~Unprivileged() {
    if (user_ == 0 && ::seteuid(user_) != 0) std::abort();
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  ::uid_t user_;
};

}  // namespace slipstream
