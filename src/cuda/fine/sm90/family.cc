// The table of the family sm90 (Hopper), whose kernels need wgmma, TMA and setmaxnreg. Host-only.
#include "src/cuda/fine/sm90/family.h"

namespace vsa::cuda::sm90 {

extern const Family kFamily;
constinit const Family kFamily{
    .name = "sm_90a",
    .min_capability = 90,
    .max_capability = 90,  // code for an `a` architecture runs on no other
    .fine = make_fine,
    .fine_backward = make_fine_backward};

}  // namespace vsa::cuda::sm90
