namespace slipstream::test {

extern const char* const kDevice;
const char* const kDevice = "cpu";

}  // namespace slipstream::test
