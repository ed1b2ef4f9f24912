/* LCMem's head in float32 with AVX-512: out[i, j] = bias + sum_k w_k |u_ik - u_jk| for the first rows and all n.
   Four rows by four, blocks of 64 rows stay near, d a multiple of 16. A peer of bench_pairs.py:
   gcc -O3 -mavx512f -fopenmp -shared -fPIC */
#include <immintrin.h>

void logits(const float *u, long n, long d, const float *w, float bias, long rows, float *out) {
#pragma omp parallel for schedule(dynamic)
    for (long block = 0; block < n / 64; block++)
        for (long i = 0; i + 4 <= rows; i += 4)
            for (long j = 64 * block; j < 64 * block + 64; j += 4) {
                __m512 sum[4][4];
                for (int a = 0; a < 4; a++)
                    for (int b = 0; b < 4; b++) sum[a][b] = _mm512_setzero_ps();
                for (long k = 0; k < d; k += 16) {
                    __m512 weight = _mm512_loadu_ps(w + k), y[4];
                    for (int b = 0; b < 4; b++) y[b] = _mm512_loadu_ps(u + (j + b) * d + k);
                    for (int a = 0; a < 4; a++) {
                        __m512 x = _mm512_loadu_ps(u + (i + a) * d + k);
                        for (int b = 0; b < 4; b++)
                            sum[a][b] = _mm512_fmadd_ps(weight, _mm512_abs_ps(_mm512_sub_ps(x, y[b])), sum[a][b]);
                    }
                }
                for (int a = 0; a < 4; a++)
                    for (int b = 0; b < 4; b++) out[(i + a) * n + j + b] = bias + _mm512_reduce_add_ps(sum[a][b]);
            }
}
