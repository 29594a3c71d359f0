/// Runs the program again and again in forks of one process. PyTorch's libraries are then
/// initialized only once, which takes longer than most runs. The argument is the descriptor of a
/// socket. Each message consists of the arguments of a run, each preceded by a zero byte, and the
/// descriptors for its standard output and its messages. The server answers with the process id,
/// and at the end of the run with the status from waitpid().
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/cli/cli.h"

namespace {

constexpr std::size_t kMostBytes = 1 << 17;

struct Request {
  std::string arguments;
  std::array<int, 2> outputs = {-1, -1};
};

std::optional<Request> receive(int socket) {
  Request request{std::string(kMostBytes, '\0')};
  ::iovec text = {request.arguments.data(), request.arguments.size()};
  alignas(::cmsghdr) std::array<char, CMSG_SPACE(sizeof(request.outputs))> control{};
  ::msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ::ssize_t bytes = ::recvmsg(socket, &message, 0);
  const ::cmsghdr* const descriptors = bytes > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (descriptors == nullptr) return std::nullopt;
  std::memcpy(request.outputs.data(), CMSG_DATA(descriptors), sizeof(request.outputs));
  request.arguments.resize(static_cast<std::size_t>(bytes));
  return request;
}

[[noreturn]] void become_the_program(Request request) {
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(request.outputs[0], STDOUT_FILENO);
  ::dup2(request.outputs[1], STDERR_FILENO);
  for (const int output : request.outputs) ::close(output);
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < request.arguments.size();
       at += std::string_view(&request.arguments[at]).size() + 1)
    arguments.push_back(&request.arguments[at]);
  const int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  const int code = slipstream::cli_main(count, arguments.data(), slipstream::built_in_workloads());
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);  // skips the destructors of PyTorch's libraries, which take long
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  const int socket = std::atoi(argv[1]);
  while (std::optional<Request> request = receive(socket)) {
    const ::pid_t process = ::fork();
    if (process == 0) {
      ::close(socket);
      become_the_program(*std::move(request));
    }
    for (const int output : request->outputs) ::close(output);
    int status = 0;
    ::send(socket, &process, sizeof(process), 0);
    ::waitpid(process, &status, 0);
    ::send(socket, &status, sizeof(status), 0);
  }
}
