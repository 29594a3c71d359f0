#include <cstdio>

// As much of NVML as tells a driver's version, and that only while it is initialised.

namespace {

constexpr int kSuccess = 0;
constexpr int kUninitialised = 1;
int users = 0;

}  // namespace

extern "C" int nvmlInit_v2() {
  ++users;
  return kSuccess;
}

extern "C" int nvmlShutdown() {
  --users;
  return kSuccess;
}

extern "C" int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  if (users == 0) return kUninitialised;
  std::snprintf(version, length, "580.65.06");
  return kSuccess;
}
