"""Evidence packets: bounded, versioned, checked before each reuse.

`manifest` what a packet says of itself, `conditions` and `request` what was asked, `rights` for whom,
`boundary` until when at most, `related` which writes concern it, `verdict` and `revalidate` whether it may be
used again, `render` and `citations` its text and the marks of an answer, `assembling` how it is made,
`handle` the packet itself, `keeping` where packets stay.
"""
