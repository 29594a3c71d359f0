#include <csignal>

namespace {

[[maybe_unused]] const int raised = std::raise(SIGINT);

}  // namespace
