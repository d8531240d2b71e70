/* Wine 8 lacks this library, and the standard library of Rust takes its random numbers from it. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) {
    const SIZE_T most = 1 << 16;
    for (SIZE_T done = 0; done < length; done += most) {
        SIZE_T part = length - done < most ? length - done : most;
        if (!SystemFunction036(bytes + done, (ULONG)part)) return FALSE;
    }
    return TRUE;
}
